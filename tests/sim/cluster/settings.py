"""The names, addresses and settings of a simulated cluster's brokers."""

CLIENT_PORT = 9092
HOME = "/a"
SECOND_DIRECTORY = "/b"


def host_of(broker_id: int) -> str:
    return f"broker-{broker_id}"


def broker_settings(broker_id: int, **settings: str) -> dict[str, str]:
    """All brokers have the same settings besides their id and their address."""
    return {
        "node.id": str(broker_id),
        "log.dirs": f"{HOME},{SECOND_DIRECTORY}",
        "listeners": f"PLAINTEXT://0.0.0.0:{CLIENT_PORT}",
        "advertised.listeners": f"PLAINTEXT://{host_of(broker_id)}:{CLIENT_PORT}",
        "ottla.disk.reserve.bytes": "0",
        "auto.create.topics.enable": "false",
        **settings,
    }
