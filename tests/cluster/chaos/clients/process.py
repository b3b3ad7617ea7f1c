"""What all client processes share: their options, their history and their end by SIGTERM.

A client is started as `python -m tests.cluster.chaos.clients.NAME OPTIONS`, options as JSON.
"""

import json
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.cluster.chaos.history import HistoryWriter

# A client that is told to end finishes what it has begun for at most this time.
ENDING_S = 30.0


@dataclass(frozen=True, slots=True)
class Options:
    servers: str
    name: str
    history: str
    seed: int
    topics: tuple[str, ...]
    partitions: int
    per_second: int = 40
    acks: str = "all"
    # How long a producer tries to deliver a record.
    delivery_s: float = 120.0
    # Members of groups.
    group: str = ""
    protocol: str = "classic"
    # The target of copies.
    target: str = ""
    # What the payloads are chosen from, if not nothing.
    words: int = 0

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> "Options":
        fields = json.loads(text)
        return cls(**{**fields, "topics": tuple(fields["topics"])})


class Client:
    """A running client process: options, history, randomness, and whether it is to end."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.history = HistoryWriter(Path(options.history), options.name)
        self.random = random.Random(f"{options.seed} {options.name}")
        self._stopping = threading.Event()
        self._deadline = float("inf")
        self._values = 0
        self._parent = os.getppid()
        signal.signal(signal.SIGTERM, lambda *_: self._stop())

    def _stop(self) -> None:
        self._deadline = time.monotonic() + ENDING_S
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        if os.getppid() != self._parent and not self._stopping.is_set():
            # Whoever started it was killed.
            self._stop()
        return self._stopping.is_set()

    @property
    def is_late(self) -> bool:
        """It was told to end, and the time for that is over."""
        return time.monotonic() > self._deadline

    def wait(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def next_value(self) -> str:
        """Unique: names of clients are."""
        self._values += 1
        return f"{self.options.name}-{self._values}"

    def payload(self) -> str:
        return f"word-{self.random.randrange(self.options.words)}" if self.options.words else ""


def run(body: Callable[[Client], None]) -> None:
    """The main function of a client."""
    # Libraries log every lost connection.
    logging.disable(logging.CRITICAL)
    body(Client(Options.decode(sys.argv[1])))
    # Nobody waits for the threads and connections of a library.
    os._exit(0)
