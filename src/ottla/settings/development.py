"""The defaults of a developer's brokers: `ottla up` and `ottla.testing.Broker`.

A user's settings override them. `ottla serve` uses Kafka's defaults.
"""

from collections.abc import Mapping

DEVELOPMENT: Mapping[str, str] = {
    # No other member is about to join: a group's first record arrives at once, not after 3 s.
    "group.initial.rebalance.delay.ms": "0",
}

# A killed broker is noticed after 2 to 3.5 s: ZooKeeper counts from the last ping, which is sent
# every second, in ticks of 0.5 s. So a busy machine may delay a ping by two seconds.
SESSION_TIMEOUT_MS = 3_000
_REPLICAS_MAX = 3


def development_of_cluster(brokers: int) -> Mapping[str, str]:
    """The defaults of the brokers that `ottla up --brokers` starts: any one of three may end."""
    replicas = str(min(_REPLICAS_MAX, brokers))
    min_insync = "2" if brokers >= _REPLICAS_MAX else "1"
    return {
        **DEVELOPMENT,
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min_insync,
        "min.insync.replicas": min_insync,
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        # A session begins late on a machine that starts everything at once.
        "zookeeper.connection.timeout.ms": "30000",
    }
