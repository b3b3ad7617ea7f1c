"""The defaults of a developer's broker: `ottla up` and `ottla.testing.Broker`.

A user's settings override them. `ottla serve` uses Kafka's defaults.
"""

from collections.abc import Mapping

DEVELOPMENT: Mapping[str, str] = {
    # No other member is about to join: a group's first record arrives at once, not after 3 s.
    "group.initial.rebalance.delay.ms": "0",
}
