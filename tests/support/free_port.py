"""A port for a listener that has to keep it from one start to the next."""

import socket


def free_port() -> int:
    """Kept for who asks for this very port, as long as this process lives.

    It stays bound, and nobody listens there: the kernel gives it to nobody who takes any port, no
    listener and no connection (whoever knocks at a broker that is away could even come to be
    connected to itself). A listener that names it may have it, for all reuse addresses.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        # Open until the process ends.
        probe.detach()
    return port
