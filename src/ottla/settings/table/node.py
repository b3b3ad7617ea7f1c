"""The broker itself: its id, its listeners, its log directories."""

from ottla.address import PORT_MAX
from ottla.settings.kinds import OneOf, Text, TextList, Unit, integer
from ottla.settings.listeners import (
    ListenerAddress,
    ListenerList,
    ListenerName,
    ListenerProtocol,
    ListenerProtocols,
    SecurityProtocol,
)
from ottla.settings.setting import broker_setting

_LOOPBACK = "127.0.0.1"

NODE_ID = broker_setting(
    "node.id",
    integer(0),
    1,
    "The broker's id, unique in the cluster.",
    older_name="broker.id",
    default_reason="Kafka has none; a single broker needs no configuration",
)
BROKER_RACK = broker_setting(
    "broker.rack",
    Text(),
    None,
    "The rack of the broker: the replicas of a new partition are on different racks if possible.",
)
LISTENERS = broker_setting(
    "listeners",
    ListenerList(),
    (ListenerAddress("PLAINTEXT", _LOOPBACK, 9092),),
    "The addresses that the broker listens on; an empty host is every interface.",
    default_reason="by default only this machine can connect",
)
ADVERTISED_LISTENERS = broker_setting(
    "advertised.listeners",
    ListenerList(is_advertised=True),
    None,
    "The addresses that clients receive, each for the listener that the client connected to; by"
    " default a client receives the address that it connected to.",
    described_by=LISTENERS,
)
LISTENER_SECURITY_PROTOCOL_MAP = broker_setting(
    "listener.security.protocol.map",
    ListenerProtocols(),
    tuple(ListenerProtocol(protocol.value, protocol) for protocol in SecurityProtocol),
    "The security protocol of each listener by its name; a listener of another protocol than"
    " PLAINTEXT is not opened yet.",
)
INTER_BROKER_LISTENER_NAME = broker_setting(
    "inter.broker.listener.name",
    ListenerName(),
    None,
    "The listener on which brokers send each other requests, and the only one on which such"
    " requests are accepted; its address for other brokers is the advertised one, else the one that"
    " it listens on; by default the listener that is named after"
    " `security.inter.broker.protocol`.",
)
SECURITY_INTER_BROKER_PROTOCOL = broker_setting(
    "security.inter.broker.protocol",
    OneOf(SecurityProtocol),
    SecurityProtocol.PLAINTEXT,
    "The security protocol between brokers; the name of their listener where"
    " `inter.broker.listener.name` is not set.",
    unsupported_reason="no listener of another protocol is opened",
)
LOG_DIRS = broker_setting(
    "log.dirs",
    TextList(may_be_empty=False),
    ("./ottla-data",),
    "The directories that hold the logs, in any order; new files in them are readable by their"
    " owner only, and existing files keep their mode.",
    older_name="log.dir",
    default_reason="data in a temporary directory does not last",
)
METRICS_HOST = broker_setting(
    "ottla.metrics.host",
    Text(),
    _LOOPBACK,
    "The address of the metrics and health endpoints.",
)
METRICS_PORT = broker_setting(
    "ottla.metrics.port",
    integer(0, PORT_MAX),
    9644,
    "The port of the metrics and health endpoints; 0 is any free one.",
)
LOOP_STALL_WARN_MS = broker_setting(
    "ottla.loop.stall.warn.ms",
    integer(1, unit=Unit.MS),
    100,
    "The broker logs a warning when the event loop was stalled for longer than this.",
)
EVENT_LOOP_STALL_MAX_MS = broker_setting(
    "ottla.event.loop.stall.max.ms",
    integer(0, unit=Unit.MS),
    30_000,
    "A broker of a cluster whose event loop stands still for longer than this ends its process: its"
    " session in ZooKeeper would last, and nobody would lead its partitions; 0 is never.",
)
