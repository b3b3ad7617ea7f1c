"""A broker inside the test process, for the tests of whoever uses one.

    from ottla.testing import Broker

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

Every Kafka client works with it. It starts in a blink, listens on a free port of the loopback, and
keeps its data in a temporary directory. With pytest there is a fixture, `ottla_broker`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    """Imports the broker when it is first asked for: pytest loads this package in every run."""
    if name == "Broker":
        from ottla.testing.broker import Broker

        return Broker
    raise AttributeError(name)
