"""The names, addresses and settings of a simulated cluster's brokers."""

CLIENT_PORT = 9092
INTERNAL_PORT = 9093
HOME = "/a"
SECOND_DIRECTORY = "/b"


def host_of(broker_id: int) -> str:
    return f"broker-{broker_id}"


def broker_settings(broker_id: int, **settings: str) -> dict[str, str]:
    """All brokers have the same settings besides their id and their address."""
    return {
        "node.id": str(broker_id),
        "log.dirs": f"{HOME},{SECOND_DIRECTORY}",
        "listeners": _listeners("0.0.0.0"),
        "advertised.listeners": _listeners(host_of(broker_id)),
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "ottla.disk.reserve.bytes": "0",
        "auto.create.topics.enable": "false",
        # With the other checkpoints, unless a scenario says otherwise.
        "replica.high.watermark.checkpoint.interval.ms": "60000",
        **settings,
    }


def _listeners(host: str) -> str:
    return f"CLIENTS://{host}:{CLIENT_PORT},INTERNAL://{host}:{INTERNAL_PORT}"
