"""Groups of the consumer protocol (KIP-848): the broker says how their members live."""

from ottla.settings.kinds import INT_MAX, Listing, Unit, integer
from ottla.settings.setting import broker_setting

GROUP_CONSUMER_SESSION_TIMEOUT_MS = broker_setting(
    "group.consumer.session.timeout.ms",
    integer(1, unit=Unit.MS),
    45_000,
    "How long a member may be silent before it is taken for dead.",
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = broker_setting(
    "group.consumer.heartbeat.interval.ms",
    integer(1, unit=Unit.MS),
    5_000,
    "How often members are told to send a heartbeat.",
)
GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = broker_setting(
    "group.consumer.assignment.interval.ms",
    integer(0, unit=Unit.MS),
    1_000,
    "How soon after the last time a group's partitions may be shared out again.",
)
GROUP_CONSUMER_MAX_SIZE = broker_setting(
    "group.consumer.max.size",
    integer(1),
    INT_MAX,
    "How many members a group may have.",
)
GROUP_CONSUMER_ASSIGNORS = broker_setting(
    "group.consumer.assignors",
    Listing(choices=("uniform", "range"), may_be_empty=False),
    ("uniform", "range"),
    "The assignors that members may ask for; the first is for groups whose members ask for none.",
)
