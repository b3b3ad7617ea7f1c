"""One direction of a simulated connection: what is unsent, on its way, and not yet read.

Bytes arrive in order and unharmed, as TCP promises; when, and in which pieces, the seed decides.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from ottla.seams.files import Buffer
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.owner import kernel_context


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the network is like at the moment."""

    latency_us_min: int = 50
    latency_us_max: int = 2_000
    split_rate: float = 0.3
    """How often a piece is cut at a random byte, when it leaves and again when it is read."""
    gather_rate: float = 0.3
    """How often a reader is woken late, so that more pieces come together."""
    reset_rate: float = 0.0
    """How often a piece that leaves meets a reset of its connection instead."""
    window_bytes: int = 64 * 1024
    """How much may be on its way or unread before the sender must keep the rest."""
    late_read: bool = False
    """Keeps the very buffer that `write` was given and reads it only when it is sent."""
    give_up_ms: int = 900_000
    """How long a sender tries to reach a peer that does not answer."""
    connect_give_up_ms: int = 127_000

    def latency_s(self, entropy: SimEntropy) -> float:
        return entropy.between(self.latency_us_min, self.latency_us_max) / 1e6


class Mark(Enum):
    """What travels on a wire besides bytes."""

    END = auto()
    RESET = auto()


class Path(Protocol):
    """The way from one host to another."""

    @property
    def conditions(self) -> Conditions: ...

    @property
    def blocked(self) -> bool:
        """Nothing arrives, and nobody says so."""
        ...


class End(Protocol):
    """One end of a connection, as its wires know it. They call it from the kernel's context."""

    @property
    def context(self) -> Context:
        """The context of the program that has this end."""
        ...

    def on_drained(self) -> None:
        """Something that was unsent has left."""
        ...

    def on_readable(self) -> None:
        """Bytes, or the end of them, have arrived."""
        ...

    def on_failure(self, error: OSError) -> None:
        """The connection is broken."""
        ...


def connection_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class Wire:
    """From `source` to `target`, both set once the connection has its two ends."""

    source: End
    target: End

    def __init__(
        self, path: Path, entropy: SimEntropy, on_reset: Callable[[], None], label: str
    ) -> None:
        self.label = label
        self.inbox = bytearray()
        self.ended = False
        """The last byte has arrived; what is in the inbox is all."""
        self.unsent_bytes = 0
        self._path = path
        self._entropy = entropy
        self._on_reset = on_reset
        self._unsent: deque[memoryview] = deque()
        self._flight: deque[tuple[float, bytes | Mark]] = deque()
        self._flight_bytes = 0
        self._latest_arrival = 0.0
        self._end_wanted = False
        self._end_sent = False
        self._cut = False
        self._orphaned = False
        # Packets travel, and are given up, whatever becomes of the processes at both ends.
        self._kernel = kernel_context()
        self._arrival: asyncio.TimerHandle | None = None
        self._departure: asyncio.TimerHandle | None = None
        self._giving_up: asyncio.TimerHandle | None = None

    def send(self, parts: list[Buffer]) -> None:
        """Takes the parts; what the window has room for leaves at once, unless reads are late.

        Behind what is unsent already they wait for their turn.
        """
        late = self._path.conditions.late_read
        first = not self._unsent
        for part in parts:
            kept = memoryview(part).cast("B") if late else memoryview(bytes(part))
            self._unsent.append(kept)
            self.unsent_bytes += len(kept)
        if late:
            self._depart_later()
        elif first:
            self._depart()

    def end(self) -> None:
        """No more will be sent; the peer hears so after the last byte."""
        self._end_wanted = True
        if not self._unsent:
            self._depart()

    def drop_unsent(self) -> None:
        self._unsent.clear()
        self.unsent_bytes = 0

    def reset(self) -> None:
        """Tells the target that the connection is broken, after what is on its way or before."""
        if self._cut:
            return
        self.drop_unsent()
        self._orphaned = False
        if self._entropy.chance(0.5):
            self._drop_flight()
        self._launch(Mark.RESET)
        self._end_sent = True

    def cut(self) -> None:
        """Nothing more leaves or arrives, and nobody is told."""
        self._cut = True
        self.drop_unsent()
        self._drop_flight()
        for timer in (self._departure, self._giving_up):
            if timer is not None:
                timer.cancel()

    def orphan(self) -> None:
        """The source's machine is gone: what has left may still arrive, but is not sent again."""
        self._orphaned = True
        self.drop_unsent()
        if self._giving_up is not None:
            self._drop_flight()

    def take(self, size: int) -> bytes:
        """Reads from the inbox, which makes room for the sender."""
        taken = bytes(self.inbox[:size])
        del self.inbox[:size]
        self._depart_later()
        return taken

    def resume(self) -> None:
        """The path is open again: what was on its way is sent once more."""
        if self._giving_up is None or self._path.blocked:
            return
        self._giving_up.cancel()
        self._giving_up = None
        waiting = [payload for _, payload in self._flight]
        self._drop_flight()
        for payload in waiting:
            self._launch(payload)

    def _depart(self) -> None:
        """Sends what the window has room for."""
        if self._cut or self._end_sent:
            return
        before = self.unsent_bytes
        while self._unsent and (room := self._room()) > 0:
            if self._entropy.chance(self._path.conditions.reset_rate):
                self._on_reset()
                return
            self._launch(self._next_piece(room))
        if self._end_wanted and not self._unsent:
            self._end_sent = True
            self._launch(Mark.END)
        if before > self.unsent_bytes or self._end_sent:
            self.source.on_drained()

    def _room(self) -> int:
        return self._path.conditions.window_bytes - self._flight_bytes - len(self.inbox)

    def _next_piece(self, room: int) -> bytes:
        first = self._unsent.popleft()
        size = min(len(first), room)
        if size > 1 and self._entropy.chance(self._path.conditions.split_rate):
            size = self._entropy.between(1, size - 1)
        if size < len(first):
            self._unsent.appendleft(first[size:])
        self.unsent_bytes -= size
        return bytes(first[:size])

    def _launch(self, payload: bytes | Mark) -> None:
        if isinstance(payload, bytes):
            self._flight_bytes += len(payload)
        now = asyncio.get_running_loop().time()
        latency_s = self._path.conditions.latency_s(self._entropy)
        self._latest_arrival = max(self._latest_arrival, now + latency_s)
        self._flight.append((self._latest_arrival, payload))
        self._arm()

    def _arm(self) -> None:
        if self._arrival is None and self._giving_up is None and self._flight:
            loop = asyncio.get_running_loop()
            self._arrival = loop.call_at(self._flight[0][0], self._arrive, context=self._kernel)

    def _drop_flight(self) -> None:
        self._flight.clear()
        self._flight_bytes = 0
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _arrive(self) -> None:
        self._arrival = None
        if self._path.blocked:
            if self._orphaned:
                self._drop_flight()
                return
            loop = asyncio.get_running_loop()
            give_up_s = self._path.conditions.give_up_ms / 1e3
            self._giving_up = loop.call_later(give_up_s, self._give_up, context=self._kernel)
            return
        now = asyncio.get_running_loop().time()
        while self._flight and self._flight[0][0] <= now:
            _, payload = self._flight.popleft()
            if payload is Mark.RESET:
                self.target.on_failure(connection_error(errno.ECONNRESET))
            elif payload is Mark.END:
                self.ended = True
                self.target.on_readable()
            else:
                self._flight_bytes -= len(payload)
                self.inbox += payload
                self.target.on_readable()
        self._arm()

    def _give_up(self) -> None:
        self.cut()
        self.source.on_failure(connection_error(errno.ETIMEDOUT))

    def _depart_later(self) -> None:
        if self._departure is None and not self._cut and self._unsent:
            latency_s = self._path.conditions.latency_s(self._entropy)
            loop = asyncio.get_running_loop()
            # What is unsent is still with the program, which may be paused.
            self._departure = loop.call_later(
                latency_s, self._depart_on_time, context=self.source.context
            )

    def _depart_on_time(self) -> None:
        self._departure = None
        self._depart()
