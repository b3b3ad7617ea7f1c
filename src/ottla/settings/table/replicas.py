"""Topics and their copies: how many there are, and how many must be in sync."""

from ottla.settings.kinds import Boolean, Listing, integer
from ottla.settings.setting import broker_setting, topic_setting

_NO_FOLLOWERS = "no partition has followers"

NUM_PARTITIONS = broker_setting(
    "num.partitions",
    integer(1),
    1,
    "How many partitions a topic gets that is made without saying so.",
)
DEFAULT_REPLICATION_FACTOR = broker_setting(
    "default.replication.factor",
    integer(1, 2**15 - 1),
    1,
    "How many copies a topic gets that is made without saying so.",
)
AUTO_CREATE_TOPICS_ENABLE = broker_setting(
    "auto.create.topics.enable",
    Boolean(),
    True,
    "Whether a topic is made when a client first asks for it.",
)
AUTO_CREATE_REQUEST_TOPICS_MAX = broker_setting(
    "ottla.auto.create.request.topics.max",
    integer(1),
    100,
    "How many topics are made because one request asked for them; the client asks again for more.",
)
DELETE_TOPIC_ENABLE = broker_setting(
    "delete.topic.enable",
    Boolean(),
    True,
    "Whether clients may delete topics.",
)
MIN_INSYNC_REPLICAS = topic_setting(
    "min.insync.replicas",
    integer(1),
    1,
    "With fewer copies in sync than this, what is sent with acks=all is refused.",
    broker="min.insync.replicas",
)
UNCLEAN_LEADER_ELECTION_ENABLE = topic_setting(
    "unclean.leader.election.enable",
    Boolean(),
    False,
    "Whether a copy that is not in sync may lead when no other is left, and records be lost.",
    broker="unclean.leader.election.enable",
    only_default=_NO_FOLLOWERS,
)
LEADER_REPLICATION_THROTTLED_REPLICAS = topic_setting(
    "leader.replication.throttled.replicas",
    Listing(),
    (),
    "Which copies are slowed down where they are read: `partition:broker`, or `*` for all.",
    only_default=_NO_FOLLOWERS,
)
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = topic_setting(
    "follower.replication.throttled.replicas",
    Listing(),
    (),
    "Which copies are slowed down where they are written: `partition:broker`, or `*` for all.",
    only_default=_NO_FOLLOWERS,
)
