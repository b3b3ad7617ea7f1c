"""Thousands of connections that send one ApiVersions request and then nothing."""

import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks import measuring
from benchmarks.peers.peer import HOST, Peer
from benchmarks.row import Ran, Scope

API_VERSIONS_KEY, API_VERSIONS_VERSION = 18, 0
SPARE_FILES = 500
QUIET_PERCENT = 5.0
QUIET_S_MAX = 20.0


@contextmanager
def idle_connections(peer: Peer, count: int) -> Iterator[None]:
    """Each connection has had one ApiVersions request answered, like a client's."""
    _allow_files(count + SPARE_FILES)
    body = struct.pack(">hhih", API_VERSIONS_KEY, API_VERSIONS_VERSION, 1, -1)
    request = struct.pack(">i", len(body)) + body
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((HOST, peer.port), 10))
            connection.sendall(request)
            connection.recv(1 << 16)
        yield


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


class IdleConnections:
    """Their cost in memory, and in CPU while idle."""

    def __init__(self, *, connections: int, seconds: float) -> None:
        self.connections, self.seconds = connections, seconds

    def prepare(self, peer: Peer, scope: Scope) -> None:
        pass

    def finish(self, peer: Peer) -> None:
        pass

    def run(self, peer: Peer, scope: Scope) -> Ran:
        count, seconds = scope.count(self.connections), scope.seconds(self.seconds)
        memory_before = measuring.memory_mb(peer.pid)
        with idle_connections(peer, count):
            await_quiet(peer)
            memory_mb = measuring.memory_mb(peer.pid) - memory_before
            idle_percent = idle_cpu_percent(peer, seconds)
        return Ran(figures={"kb_each": memory_mb * 1000 / count, "idle_percent": idle_percent})


def await_quiet(peer: Peer) -> None:
    """Waits until the broker is idle: a JVM is busy for seconds after work."""
    deadline = time.monotonic() + QUIET_S_MAX
    while idle_cpu_percent(peer, 1.0) > QUIET_PERCENT and time.monotonic() < deadline:
        pass


def idle_cpu_percent(peer: Peer, seconds: float) -> float:
    """The share of one core that an idle broker takes."""
    before, began = measuring.cpu_s(peer.pid), time.monotonic()
    time.sleep(seconds)
    return (measuring.cpu_s(peer.pid) - before) / (time.monotonic() - began) * 100
