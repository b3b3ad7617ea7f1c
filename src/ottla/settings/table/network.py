"""What clients may take of a broker: connections, bytes in flight, bytes in a reply."""

from ottla.settings.kinds import INT_MAX, Unit, integer, long
from ottla.settings.setting import broker_setting

SOCKET_REQUEST_MAX_BYTES = broker_setting(
    "socket.request.max.bytes",
    integer(1, unit=Unit.BYTES),
    100 << 20,
    "The largest request that is taken; who announces a larger one is disconnected.",
)
REQUEST_BESIDES_PRODUCE_MAX_BYTES = broker_setting(
    "ottla.request.besides.produce.max.bytes",
    integer(1, unit=Unit.BYTES),
    2 << 20,
    "The largest request that is no produce; who sends a larger one is disconnected.",
)
REQUEST_ELEMENTS_MAX = broker_setting(
    "ottla.request.elements.max",
    # What is read natively has this limit.
    integer(10_000),
    20_000,
    "How many array elements and tagged fields a request may have, topics, partitions and all"
    " others counted together; who sends more is disconnected, because each takes some ten"
    " microseconds of the event loop while all other clients wait.",
)
REQUEST_TOPICS_MAX = broker_setting(
    "ottla.request.topics.max",
    integer(1),
    1_000,
    "How many topics one request may create, grow or delete, or of how many resources it may change"
    " the settings; those beyond are refused with POLICY_VIOLATION, the others are done.",
    is_dynamic=True,
)
QUEUED_MAX_REQUEST_BYTES = broker_setting(
    "queued.max.request.bytes",
    long(1, unit=Unit.BYTES),
    256 << 20,
    "With more bytes of requests than this in memory, no connection is read.",
    default_reason="memory is bounded; this is room for two of the largest requests and many small",
)
REPLIES_UNSENT_MAX_BYTES = broker_setting(
    "ottla.replies.unsent.max.bytes",
    long(1, unit=Unit.BYTES),
    256 << 20,
    "With more bytes of replies than this in memory that clients have not taken, the client that"
    " leaves most of them is disconnected; from half of it on, no client gets a reply before it has"
    " taken those before.",
)
SOCKET_LISTEN_BACKLOG_SIZE = broker_setting(
    "socket.listen.backlog.size",
    integer(1),
    1024,
    "How many connections may wait to be accepted.",
    default_reason="all clients of a restarted broker come back at once",
)
MAX_CONNECTIONS = broker_setting(
    "max.connections",
    integer(0),
    10_000,
    "How many connections there may be; further ones are closed at once.",
    is_dynamic=True,
    default_reason="connections must not take the descriptors that the logs need",
)
MAX_CONNECTIONS_PER_IP = broker_setting(
    "max.connections.per.ip",
    integer(0),
    INT_MAX,
    "How many connections one address may have; further ones are closed at once.",
    is_dynamic=True,
)
CONNECTIONS_MAX_IDLE_MS = broker_setting(
    "connections.max.idle.ms",
    long(1, unit=Unit.MS),
    600_000,
    "A connection that was silent for this long is closed.",
)
FETCH_MAX_BYTES = broker_setting(
    "fetch.max.bytes",
    integer(1024, unit=Unit.BYTES),
    55 << 20,
    "The most that is in one reply to a fetch, whatever the client asks for.",
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = broker_setting(
    "max.incremental.fetch.session.cache.slots",
    integer(0),
    1000,
    "How many fetch sessions are kept; a client without one names all its partitions each time.",
)
