"""A broker that was just started: waits until it serves, and asks it all the time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.loads.asking import Asking
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed
from ottla.protocol.messages.api_versions import ApiVersionsRequest

API_VERSIONS_VERSION = 0
START_S_MAX = 120.0


def await_serving(peer: Peer, deadline: float) -> None:
    while time.monotonic() < deadline:
        peer.check_running()
        try:
            with Asking(peer) as asking:
                asking.ask(ApiVersionsRequest(), API_VERSIONS_VERSION)
                return
        except OSError:
            time.sleep(0.005)
    raise LoadFailed(f"{peer.name} does not serve {START_S_MAX:.0f} s after its start")


@contextmanager
def longest_answers(peer: Peer) -> Iterator[list[float]]:
    """Response times in seconds of a client that sends requests all the time."""
    is_over = threading.Event()
    answers_s = [0.0]

    def ask() -> None:
        with Asking(peer) as asking:
            while not is_over.wait(0.0005):
                began = time.monotonic()
                asking.ask(ApiVersionsRequest(), API_VERSIONS_VERSION)
                answers_s.append(time.monotonic() - began)

    client = threading.Thread(target=ask, name="longest-answers")
    client.start()
    try:
        yield answers_s
    finally:
        is_over.set()
        client.join()
