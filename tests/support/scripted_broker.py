"""A broker on loopback that records decoded requests, and answers each as a function says."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.exchange import decode_request, encode_request, encode_response
from ottla.protocol.messages import Api
from tests.support.request_frames import joined

Answer = Callable[["Asked"], object]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `is_exact`: the codec encodes it to the same bytes."""

    connection: int
    api: Api
    version: int
    message: Any
    is_exact: bool


@dataclass(slots=True)
class ScriptedBroker:
    """All requests in the order of their arrival."""

    port: int
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def scripted_broker(answer: Answer) -> Iterator[ScriptedBroker]:
    """Requests are answered one after another, on whatever connection they come."""
    turn, threads = threading.Lock(), []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = ScriptedBroker(listener.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                arguments = (connection, len(threads), broker, turn, answer)
                threads.append(threading.Thread(target=_serve, args=arguments))
                threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield broker
        finally:
            # Closing alone does not wake a thread that accepts.
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def _serve(
    connection: socket.socket,
    number: int,
    broker: ScriptedBroker,
    turn: threading.Lock,
    answer: Answer,
) -> None:
    with connection, connection.makefile("rb") as received:
        while len(head := received.read(4)) == 4:
            frame = received.read(struct.unpack(">i", head)[0])
            header, api, message = decode_request(frame)
            version, correlation_id = header.request_api_version, header.correlation_id
            again = encode_request(correlation_id, api, version, message, header.client_id)
            with turn:
                asked = Asked(number, api, version, message, joined(again) == head + frame)
                broker.asked.append(asked)
                response = answer(asked)
            connection.sendall(joined(encode_response(correlation_id, api, version, response)))
