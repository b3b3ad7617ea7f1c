"""Whether a broker of a cluster is ready: it is registered, its metadata is current, and its own
replicas are in sync.

A replica counts against its broker if its log is offline, or if it follows a leader and is not in
the ISR. A partition that lacks other replicas, or that nobody leads, is the fault of other brokers.
So once a restarted broker is ready, the next one can be restarted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.broker.http.health import Condition, some_of
from ottla.metadata.image import Image
from ottla.metadata.values import Incarnation
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.partition import Partition

# Limits the length of the page.
NAMED_PARTITIONS_MAX = 5
# The part that is not ready before the first look at the others.
NOT_EXAMINED = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBroker:
    """A broker of a cluster at one moment."""

    is_registered: bool
    # How long its metadata servers have not answered; None if they do.
    silent_ms: int | None
    # None if sessions do not end by time.
    session_timeout_ms: int | None
    # Entries of the metadata log that it has known of for a while, and has not applied.
    entries_behind: int
    replica_count: int
    catching_up: Sequence[TopicPartition]
    offline: Sequence[TopicPartition]


def is_catching_up(partition: Partition, me: Incarnation | None, image: Image) -> bool:
    """Whether this broker should be in the ISR of a partition that another one leads, and is not.

    A replica that a reassignment adds is not expected in sync yet.
    """
    if partition.is_leader or partition.leader is None or me is None or me in partition.isr:
        return False
    record = image.partition(partition.topic_id, partition.index)
    return record is not None and me.broker_id not in record.adding


def why_not_ready(broker: ObservedBroker) -> dict[str, str]:
    """The reasons by part; empty if the broker is ready. Pure."""
    reasons: dict[str, str] = {}
    if not broker.is_registered:
        reasons["session"] = "lost, and the broker has not registered again yet"
    elif _may_have_expired(broker):
        reasons["session"] = (
            f"ZooKeeper has not answered for {(broker.silent_ms or 0) // 1000} s, and a session"
            f" lasts {(broker.session_timeout_ms or 0) / 1000:g} s: others may lead instead"
        )
    if broker.entries_behind:
        reasons["metadata"] = f"{broker.entries_behind} entries of its log are not applied yet"
    total = broker.replica_count
    if broker.catching_up:
        reasons["replicas"] = (
            f"{len(broker.catching_up)} of {total} are out of sync, and catch up with their"
            f" leaders: {_names(broker.catching_up)}"
        )
    if broker.offline:
        reasons["logs"] = f"{len(broker.offline)} of {total} are offline: {_names(broker.offline)}"
    return reasons


class ClusterHealth:
    """Updates a broker's readiness. It is not ready before the first `show`."""

    def __init__(self, ready: Condition) -> None:
        self._ready = ready
        self._shown = {NOT_EXAMINED: "its replicas have not been examined yet"}
        ready.replace({}, self._shown)

    def show(self, broker: ObservedBroker) -> None:
        reasons = why_not_ready(broker)
        self._ready.replace(self._shown, reasons)
        self._shown = reasons


def _may_have_expired(broker: ObservedBroker) -> bool:
    return (
        broker.silent_ms is not None
        and broker.session_timeout_ms is not None
        and broker.silent_ms >= broker.session_timeout_ms
    )


def _names(partitions: Sequence[TopicPartition]) -> str:
    return some_of([str(each) for each in sorted(partitions)], NAMED_PARTITIONS_MAX)
