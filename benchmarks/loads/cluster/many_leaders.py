"""10,000 partitions on three brokers: one broker is killed, and others lead its partitions."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks import measuring
from benchmarks.loads.cluster.own_cluster import OnOwnCluster, kill_broker
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope

PARTITIONS_PER_TOPIC = 100
TOPICS_PER_REQUEST = 10
CREATE_S_MAX = 240.0
LED_S_MAX = 120.0
ADMIN_S = 60.0
POLL_S = 0.1
VICTIM_SHARE_MIN = 0.3
ZOOKEEPER = b"QuorumPeerMain"


class LostLeaders(OnOwnCluster):
    """The time from SIGKILL until each partition that it led answers ListOffsets again."""

    def __init__(self, *, partitions: int) -> None:
        super().__init__()
        self.partitions = partitions

    def run_on(self, cluster: Peer, scope: Scope, /) -> Ran:
        topics = max(1, scope.count(self.partitions) // PARTITIONS_PER_TOPIC)
        admin = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})
        began_s = time.monotonic()
        _create(admin, topics)
        _await_replicated(admin, topics * PARTITIONS_PER_TOPIC, cluster.brokers)
        created_s = time.monotonic() - began_s
        zookeeper_mb = _zookeeper_mb(cluster)
        brokers_mb = measuring.memory_mb(*cluster.pids) - zookeeper_mb
        victim = cluster.brokers
        lost = [
            TopicPartition(topic, partition)
            for topic, partition, leader, _ in _partitions(admin)
            if leader == victim
        ]
        if len(lost) < topics * PARTITIONS_PER_TOPIC * VICTIM_SHARE_MIN:
            raise LoadFailed(f"broker {victim} led only {len(lost)} partitions")
        killed_s = time.monotonic()
        kill_broker(cluster, victim)
        _await_led(admin, lost, victim, killed_s + LED_S_MAX)
        return Ran(
            figures={
                "led_s": time.monotonic() - killed_s,
                "created_s": created_s,
                "brokers_mb": brokers_mb,
                "zookeeper_mb": zookeeper_mb,
            }
        )


def _create(admin: AdminClient, topics: int) -> None:
    """A few topics per request: 10,000 partitions in one would exceed a limit of Kafka's."""
    for begin in range(0, topics, TOPICS_PER_REQUEST):
        wanted = [
            NewTopic(f"many-{number}", num_partitions=PARTITIONS_PER_TOPIC)
            for number in range(begin, min(topics, begin + TOPICS_PER_REQUEST))
        ]
        answers = admin.create_topics(wanted, operation_timeout=ADMIN_S, request_timeout=ADMIN_S)
        for answer in answers.values():
            answer.result(ADMIN_S)


def _partitions(admin: AdminClient) -> Iterator[tuple[str, int, int, int]]:
    """Topic, partition, leader and size of the ISR, of all partitions of the load."""
    for topic in admin.list_topics(timeout=ADMIN_S).topics.values():
        if topic.topic.startswith("many-"):
            for number, partition in topic.partitions.items():
                yield topic.topic, number, partition.leader, len(partition.isrs)


def _await_replicated(admin: AdminClient, expected: int, replicas: int) -> None:
    deadline_s = time.monotonic() + CREATE_S_MAX
    while time.monotonic() < deadline_s:
        found = list(_partitions(admin))
        ready = sum(leader >= 0 and isr == replicas for _, _, leader, isr in found)
        if ready == expected:
            return
        time.sleep(POLL_S)
    raise LoadFailed(f"{ready} of {expected} partitions are in sync after {CREATE_S_MAX:.0f} s")


def _await_led(
    admin: AdminClient, lost: Sequence[TopicPartition], victim: int, deadline_s: float
) -> None:
    while True:
        try:
            leaders = [leader for _, _, leader, _ in _partitions(admin)]
            if all(leader >= 0 and leader != victim for leader in leaders):
                answers = admin.list_offsets({each: OffsetSpec.latest() for each in lost})
                for answer in answers.values():
                    answer.result(ADMIN_S)
                return
        except KafkaException:
            pass  # a leader is not ready, or the broker that was asked is the dead one
        if time.monotonic() > deadline_s:
            raise LoadFailed(f"not all partitions are led after {LED_S_MAX:.0f} s")
        time.sleep(POLL_S)


def _zookeeper_mb(cluster: Peer) -> float:
    members = [member for pid in cluster.pids for member in measuring.family(pid)]
    servers = [pid for pid in members if ZOOKEEPER in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return measuring.memory_mb(*servers)
