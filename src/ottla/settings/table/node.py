"""The broker itself: who it is, where it listens, where it keeps its logs."""

from ottla.settings.kinds import Listing, Text, Unit, integer
from ottla.settings.listeners import (
    PORT_MAX,
    Listener,
    ListenerProtocol,
    ListenerProtocols,
    Listeners,
    SecurityProtocol,
)
from ottla.settings.setting import broker_setting

_LOOPBACK = "127.0.0.1"

NODE_ID = broker_setting(
    "node.id",
    integer(0),
    1,
    "The broker's number, its own in the cluster.",
    older_name="broker.id",
    default_reason="Kafka has none; a single broker needs no thought about it",
)
LISTENERS = broker_setting(
    "listeners",
    Listeners(),
    (Listener("PLAINTEXT", _LOOPBACK, 9092),),
    "Where clients connect; an empty host is every interface.",
    default_reason="only this machine may connect until someone says otherwise",
)
ADVERTISED_LISTENERS = broker_setting(
    "advertised.listeners",
    Listeners(is_advertised=True),
    None,
    "The addresses that clients are told, each those of the listener they came through; unset, a"
    " client is told the one it connected to.",
    told_by=LISTENERS,
)
LISTENER_SECURITY_PROTOCOL_MAP = broker_setting(
    "listener.security.protocol.map",
    ListenerProtocols(),
    tuple(ListenerProtocol(protocol.value, protocol) for protocol in SecurityProtocol),
    "The security protocol of each listener by its name; a listener of another protocol than"
    " PLAINTEXT is not opened yet.",
)
LOG_DIRS = broker_setting(
    "log.dirs",
    Listing(may_be_empty=False),
    ("./ottla-data",),
    "The directories that hold the logs; what is made there is readable for its owner alone, and"
    " what exists keeps its mode; their order may change.",
    older_name="log.dir",
    default_reason="what is in a temporary directory does not last",
)
METRICS_HOST = broker_setting(
    "ottla.metrics.host",
    Text(),
    _LOOPBACK,
    "The address at which metrics and health are served.",
)
METRICS_PORT = broker_setting(
    "ottla.metrics.port",
    integer(0, PORT_MAX),
    9644,
    "The port at which metrics and health are served; 0 is any free one.",
)
LOOP_STALL_WARN_MS = broker_setting(
    "ottla.loop.stall.warn.ms",
    integer(1, unit=Unit.MS),
    100,
    "When the event loop was busy with one thing for longer than this, the log says so.",
)
