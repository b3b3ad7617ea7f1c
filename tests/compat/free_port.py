"""A port for a listener that has to keep it from one start to the next."""

import socket


def free_port() -> int:
    """Free a moment ago; nothing holds it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
