"""A broker inside the test process, for tests of Kafka clients.

    from ottla.testing import Broker

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

Every Kafka client works with it. It starts quickly, listens on a free port of the loopback
interface, and keeps its data in a temporary directory. The pytest fixture is `ottla_broker`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.broker import Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> Any:
    """Imports the broker on first use: pytest loads this package in every run."""
    if name == "Broker":
        from ottla.testing.broker import Broker

        return Broker
    raise AttributeError(name)
