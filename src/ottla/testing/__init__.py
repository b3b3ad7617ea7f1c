"""A broker inside the test process, for tests of Kafka clients.

    from ottla.testing import Broker

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

Every Kafka client works with it. It starts quickly, listens on a free port of the loopback
interface, and keeps its data in a temporary directory. The pytest fixture is `ottla_broker`.

`Cluster` has several brokers, which replicate. A test can kill one and start it again:

    with Cluster(3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        cluster.kill(2)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.testing.broker import Broker
    from ottla.testing.cluster import Cluster

__all__ = ["Broker", "Cluster"]


def __getattr__(name: str) -> Any:
    """Imports the broker on first use: pytest loads this package in every run."""
    if name == "Broker":
        from ottla.testing.broker import Broker

        return Broker
    if name == "Cluster":
        from ottla.testing.cluster import Cluster

        return Cluster
    raise AttributeError(name)
