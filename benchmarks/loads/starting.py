"""Starts a separate broker on a directory with one topic: its start time and memory."""

import shutil
import socket
import struct
import time

from benchmarks import measuring
from benchmarks.loads import rdkafka
from benchmarks.peers.peer import HOST, Peer
from benchmarks.row import LoadFailed, Ran, Scope
from ottla.protocol.batch import Record, build

TOPIC = "first"
START_S_MAX = 120.0
AT_REST_S = 2.0
ERROR_AT = 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4


def _produce_request(acks: int) -> bytes:
    """Produce v7 of one record."""
    batch = bytes(build([Record(0, 1_700_000_000_000, None, b"a")]))
    body = struct.pack(">hhih", 0, 7, 1, -1) + struct.pack(">hhii", -1, acks, 3000, 1)
    body += struct.pack(">h", len(TOPIC)) + TOPIC.encode()
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    return struct.pack(">i", len(body)) + body


class Start:
    """Time from process start to the first acknowledged record; memory then and after load."""

    def __init__(self, *, messages: int, size: int) -> None:
        self.messages, self.size = messages, size
        self._own: dict[str, Peer] = {}

    def prepare(self, peer: Peer, _scope: Scope, /) -> None:
        own = peer.another(peer.directory.with_name(f"{peer.directory.name}-started"))
        with own:
            own.create_topic(TOPIC, 1)
        self._own[peer.name] = own

    def finish(self, peer: Peer) -> None:
        if own := self._own.pop(peer.name, None):
            own.stop()
            shutil.rmtree(own.directory, ignore_errors=True)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        own = self._own[peer.name]
        began = time.monotonic()
        try:
            own.start()
            await_acknowledgement(own, began + START_S_MAX)
            start_s = time.monotonic() - began
            time.sleep(AT_REST_S)
            rest_mb = measuring.memory_mb(own.pid)
            count = scope.count(self.messages)
            rdkafka.produce(own, TOPIC, count=count, size=self.size)
            loaded_mb = measuring.memory_mb(own.pid)
        finally:
            own.stop()
        return Ran(figures={"start_s": start_s, "rest_mb": rest_mb, "loaded_mb": loaded_mb})


def await_acknowledgement(peer: Peer, deadline: float, acks: int = 1) -> None:
    """Asks each broker in turn. LoadFailed if no record is acknowledged until the deadline."""
    request = _produce_request(acks)
    while time.monotonic() < deadline:
        peer.check_running()
        if any(_is_acknowledged(port, request) for port in peer.ports):
            return
        time.sleep(0.005)
    raise LoadFailed(f"no record was acknowledged within {START_S_MAX:.0f} s of the start")


def _is_acknowledged(port: int, request: bytes) -> bool:
    try:
        with socket.create_connection((HOST, port), 2) as connection:
            connection.sendall(request)
            answer = connection.recv(4096)
            return bool(struct.unpack_from(">h", answer, ERROR_AT)[0] == 0)
    except (OSError, struct.error):
        return False  # not listening yet, or not yet the leader
