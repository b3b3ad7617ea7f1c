"""Topics and replicas: topic creation, replication factor and in-sync replicas."""

from enum import StrEnum

from ottla.settings.kinds import (
    Boolean,
    ClassName,
    ThrottledReplicaList,
    Unit,
    integer,
    long,
)
from ottla.settings.setting import broker_setting, topic_setting

# Kafka's rate of a replication that is not throttled.
UNTHROTTLED = 2**63 - 1


class ReplicaSelectorClass(StrEnum):
    """Kafka's replica selectors, by the names of their Java classes."""

    LEADER = "org.apache.kafka.common.replica.LeaderSelector"
    RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


NUM_PARTITIONS = broker_setting(
    "num.partitions",
    integer(1),
    1,
    "The default number of partitions of a new topic.",
)
DEFAULT_REPLICATION_FACTOR = broker_setting(
    "default.replication.factor",
    integer(1, 2**15 - 1),
    1,
    "The default replication factor of a new topic.",
)
AUTO_CREATE_TOPICS_ENABLE = broker_setting(
    "auto.create.topics.enable",
    Boolean(),
    True,
    "Whether a topic is created when a client first requests it.",
)
AUTO_CREATE_REQUEST_TOPICS_MAX = broker_setting(
    "ottla.auto.create.request.topics.max",
    integer(1),
    100,
    "The maximum number of topics that one request creates automatically; the client's retry"
    " creates more.",
)
DELETE_TOPIC_ENABLE = broker_setting(
    "delete.topic.enable",
    Boolean(),
    True,
    "Whether clients may delete topics.",
)
REPLICA_SELECTOR_CLASS = broker_setting(
    "replica.selector.class",
    ClassName(ReplicaSelectorClass),
    None,
    "The replica from which a consumer reads: with `RackAwareReplicaSelector` one in the rack of"
    " its `client.rack`, if one there is in sync; by default the leader; the same on all brokers.",
)
MIN_INSYNC_REPLICAS = topic_setting(
    "min.insync.replicas",
    integer(1),
    1,
    "With fewer in-sync replicas than this, produce requests with acks=all are refused.",
    broker="min.insync.replicas",
)
UNCLEAN_LEADER_ELECTION_ENABLE = topic_setting(
    "unclean.leader.election.enable",
    Boolean(),
    False,
    "Whether a replica that is not in sync may become leader if no other is left, which loses"
    " records.",
    broker="unclean.leader.election.enable",
)
AUTO_LEADER_REBALANCE_ENABLE = broker_setting(
    "auto.leader.rebalance.enable",
    Boolean(),
    True,
    "Whether the controller has the preferred replicas, the first of each partition, lead again.",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = broker_setting(
    "leader.imbalance.check.interval.seconds",
    long(1, unit=Unit.SECONDS),
    300,
    "How often the controller looks for partitions that their preferred replica does not lead.",
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE = broker_setting(
    "leader.imbalance.per.broker.percentage",
    integer(0),
    10,
    "A broker leads its partitions again if more than this percentage of those for which it is the"
    " preferred replica are led by others.",
)
LEADER_REPLICATION_THROTTLED_RATE = broker_setting(
    "leader.replication.throttled.rate",
    long(0, unit=Unit.BYTES),
    UNTHROTTLED,
    "The bytes per second that this broker, as the leader, sends to throttled replicas that are not"
    " in sync.",
    is_dynamic=True,
)
FOLLOWER_REPLICATION_THROTTLED_RATE = broker_setting(
    "follower.replication.throttled.rate",
    long(0, unit=Unit.BYTES),
    UNTHROTTLED,
    "The bytes per second that this broker, as a follower, fetches for throttled replicas that are"
    " not in sync.",
    is_dynamic=True,
)
LEADER_REPLICATION_THROTTLED_REPLICAS = topic_setting(
    "leader.replication.throttled.replicas",
    ThrottledReplicaList(),
    (),
    "The replicas throttled on the leader: `partition:broker`, the broker being the leader, or `*`"
    " for all.",
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = topic_setting(
    "follower.replication.throttled.replicas",
    ThrottledReplicaList(),
    (),
    "The replicas throttled on the follower: `partition:broker`, or `*` for all.",
)
