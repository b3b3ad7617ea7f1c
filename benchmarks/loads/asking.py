"""A blocking connection with pipelined requests, for the preparation of loads."""

import socket
import struct
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.peer import HOST, Peer
from ottla.client.wire.in_flight import api_of
from ottla.protocol.exchange import decode_response, encode_request

ANSWER_S_MAX = 60.0
IN_FLIGHT_MAX = 100


class Asking:
    """One connection to a broker. A context manager. OSError if it does not answer."""

    def __init__(self, peer: Peer) -> None:
        self._socket = socket.create_connection((HOST, peer.port), ANSWER_S_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    def ask(self, request: object, version: int) -> Any:
        return self.ask_all([request], version)[0]

    def ask_all(self, requests: Sequence[object], version: int) -> list[Any]:
        """The responses in the order of the requests, which are all of one kind."""
        api = api_of(requests[0])
        responses = []
        for begin in range(0, len(requests), IN_FLIGHT_MAX):
            some = requests[begin : begin + IN_FLIGHT_MAX]
            frames = [b"".join(encode_request(1, api, version, each)) for each in some]
            self._socket.sendall(b"".join(frames))
            responses += [decode_response(self._answer(), api, version) for _ in some]
        return responses

    def _answer(self) -> bytes:
        head = self._answers.read(4)
        if len(head) < 4:
            raise ConnectionError("the broker closed the connection")
        return self._answers.read(struct.unpack(">i", head)[0])
