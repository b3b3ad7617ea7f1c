"""A free port for the tests of brokers."""

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def port() -> Iterator[int]:
    """A port that stays free during the test, for IPv4 and IPv6."""
    with socket.socket(socket.AF_INET6) as keeping:
        keeping.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # A server that sets the same option can bind the reserved port.
        keeping.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeping.bind(("::", 0))
        yield keeping.getsockname()[1]
