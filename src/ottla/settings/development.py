"""What a broker for one developer has by default: of `ottla up` and of `ottla.testing.Broker`.

Whatever a user sets counts before it. `ottla serve` has Kafka's defaults.
"""

from collections.abc import Mapping

DEVELOPMENT: Mapping[str, str] = {
    # Nobody else is about to join: a group's first record comes at once, and not after 3 s.
    "group.initial.rebalance.delay.ms": "0",
}
