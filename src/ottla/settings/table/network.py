"""Limits on clients: connections, bytes in flight, and the size of requests and responses."""

from ottla.settings.kinds import INT_MAX, Unit, integer, long
from ottla.settings.setting import broker_setting

SOCKET_REQUEST_MAX_BYTES = broker_setting(
    "socket.request.max.bytes",
    integer(1, unit=Unit.BYTES),
    100 << 20,
    "The maximum size of a request; a client that announces a larger one is disconnected.",
)
REQUEST_BESIDES_PRODUCE_MAX_BYTES = broker_setting(
    "ottla.request.besides.produce.max.bytes",
    integer(1, unit=Unit.BYTES),
    2 << 20,
    "The maximum size of a request other than Produce; a client that sends a larger one is"
    " disconnected.",
)
REQUEST_ELEMENTS_MAX = broker_setting(
    "ottla.request.elements.max",
    # The native code has this limit.
    integer(10_000),
    20_000,
    "The maximum number of array elements and tagged fields in a request, counting topics,"
    " partitions and all others together; a client that sends more is disconnected, because each"
    " element takes about ten microseconds of the event loop while all other clients wait.",
)
REQUEST_TOPICS_MAX = broker_setting(
    "ottla.request.topics.max",
    integer(1),
    1_000,
    "The maximum number of topics that one request may create, grow or delete, and of resources"
    " whose settings it may change; the broker handles these and refuses the rest with"
    " POLICY_VIOLATION.",
    is_dynamic=True,
)
QUEUED_MAX_REQUEST_BYTES = broker_setting(
    "queued.max.request.bytes",
    long(1, unit=Unit.BYTES),
    256 << 20,
    "The broker stops reading from connections while requests in memory exceed this size.",
    default_reason="memory is bounded; this holds two of the largest requests and many small ones",
)
REPLIES_UNSENT_MAX_BYTES = broker_setting(
    "ottla.replies.unsent.max.bytes",
    long(1, unit=Unit.BYTES),
    256 << 20,
    "The maximum size of unsent responses in memory; beyond it, the client with the most unsent"
    " bytes is disconnected; from half of it on, a client gets its next response only after it has"
    " received the previous ones.",
)
SOCKET_LISTEN_BACKLOG_SIZE = broker_setting(
    "socket.listen.backlog.size",
    integer(1),
    1024,
    "The maximum number of connections that wait to be accepted.",
    default_reason="all clients reconnect at once to a restarted broker",
)
MAX_CONNECTIONS = broker_setting(
    "max.connections",
    integer(0),
    10_000,
    "The maximum number of connections; further ones are closed at once.",
    is_dynamic=True,
    default_reason="connections must not take the descriptors that the logs need",
)
MAX_CONNECTIONS_PER_IP = broker_setting(
    "max.connections.per.ip",
    integer(0),
    INT_MAX,
    "The maximum number of connections per IP address; further ones are closed at once.",
    is_dynamic=True,
)
CONNECTIONS_MAX_IDLE_MS = broker_setting(
    "connections.max.idle.ms",
    long(1, unit=Unit.MS),
    600_000,
    "A connection that was idle for this long is closed.",
)
REQUEST_TIMEOUT_MS = broker_setting(
    "request.timeout.ms",
    integer(1, unit=Unit.MS),
    30_000,
    "The time for which a broker waits for another broker's answer; a client's request for the"
    " controller that has no timeout of its own is refused after it.",
)
FETCH_MAX_BYTES = broker_setting(
    "fetch.max.bytes",
    integer(1024, unit=Unit.BYTES),
    55 << 20,
    "The maximum size of a fetch response, regardless of the client's limit.",
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = broker_setting(
    "max.incremental.fetch.session.cache.slots",
    integer(0),
    1000,
    "The maximum number of fetch sessions; a client without one sends all its partitions with"
    " every fetch.",
)
