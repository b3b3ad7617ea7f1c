"""The asyncio face of a simulated connection's end: it drives the real protocol classes."""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Any

from ottla.seams.files import Buffer
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.trace import Trace
from tests.sim.seams.wire import Path, Wire

READ_BYTES_MAX = 256 * 1024
HIGH_WATER_BYTES = 64 * 1024


class SimTransport(asyncio.Transport):
    """One end. It is open until `close`, `abort` or a failure; then the protocol hears once.

    The protocol is called in `context`, the one of the program that has this end. While that
    program is paused, what arrives stays in the wire, up to its window.
    """

    def __init__(
        self,
        outgoing: Wire,
        incoming: Wire,
        path: Path,
        entropy: SimEntropy,
        trace: Trace,
        extra: dict[str, Any],
        context: Context,
    ) -> None:
        super().__init__(extra)
        self.context = context
        self._outgoing = outgoing
        self._incoming = incoming
        self._path = path
        self._entropy = entropy
        self._trace = trace
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.BaseProtocol | None = None
        self._closing = False
        self._reading = False
        self._read_scheduled = False
        self._end_written = False
        self._end_read = False
        self._writing_paused = False
        self._high_bytes = HIGH_WATER_BYTES
        self._low_bytes = HIGH_WATER_BYTES // 4
        self.gone = False
        """The socket is closed: the peer's bytes find nobody."""

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection stands: the protocol hears of it, then of what arrives."""
        if self.gone:
            return
        self._protocol = protocol
        self._reading = True
        protocol.connection_made(self)
        self.on_readable()

    def vanish(self) -> None:
        """The machine lost power: nobody on either side hears anything."""
        self._forsake()
        self._outgoing.orphan()

    def die(self) -> None:
        """The process died: its kernel closes the socket, its protocol hears nothing."""
        if not self.gone:
            self._forsake()
            self._outgoing.drop_unsent()
            self._hang_up()

    # What the program calls.

    def write(self, data: Buffer) -> None:
        self._write([data])

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self._write(list(list_of_data))

    def write_eof(self) -> None:
        if not self._closing and not self._end_written:
            self._end_written = True
            self._outgoing.end()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._outgoing.unsent_bytes == 0:
            self._loop.call_soon(self._lose, None, context=self.context)

    def abort(self) -> None:
        self._break(None)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._closing:
            self._reading = True
            self.on_readable()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be at least low ({low}), and low at least 0")
        self._high_bytes, self._low_bytes = high, low
        self._pause_writing_if_full()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def get_write_buffer_size(self) -> int:
        return self._outgoing.unsent_bytes

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        if self._protocol is None:
            raise RuntimeError("the connection has no protocol")
        return self._protocol

    # What the wires call.

    def on_drained(self) -> None:
        if self.gone:
            return
        unsent_bytes = self._outgoing.unsent_bytes
        if self._writing_paused and unsent_bytes <= self._low_bytes:
            self._writing_paused = False
            self._tell(self.get_protocol().resume_writing)
        if self._closing and unsent_bytes == 0:
            self._loop.call_soon(self._lose, None, context=self.context)

    def on_readable(self) -> None:
        if self.gone:
            # A closed socket answers whatever arrives, except the end, with a reset.
            if self._incoming.inbox:
                self._outgoing.reset()
            return
        if self._read_scheduled or not self.is_reading():
            return
        self._read_scheduled = True
        if self._entropy.chance(self._path.conditions.gather_rate):
            late_s = self._path.conditions.latency_s(self._entropy)
            self._loop.call_later(late_s, self._read, context=self.context)
        else:
            self._loop.call_soon(self._read, context=self.context)

    def on_failure(self, error: OSError) -> None:
        self._outgoing.cut()
        self._incoming.cut()
        self._break(error)

    def _write(self, parts: list[Buffer]) -> None:
        for part in parts:
            if not isinstance(part, bytes | bytearray | memoryview):
                raise TypeError(f"bytes are expected, not {type(part).__name__}")
        if self._end_written:
            raise RuntimeError("write after write_eof")
        if self._closing:
            return
        self._outgoing.send([part for part in parts if len(part)])
        self._pause_writing_if_full()

    def _pause_writing_if_full(self) -> None:
        if self._writing_paused or self._outgoing.unsent_bytes <= self._high_bytes:
            return
        self._writing_paused = True
        self._tell(self.get_protocol().pause_writing)

    def _read(self) -> None:
        self._read_scheduled = False
        if not self.is_reading():
            return
        if self._incoming.inbox:
            self._read_some()
            if self._incoming.inbox or self._incoming.ended:
                self.on_readable()
        elif self._incoming.ended and not self._end_read:
            self._end_read = True
            self._tell(self._read_end)

    def _read_some(self) -> None:
        size = min(len(self._incoming.inbox), READ_BYTES_MAX)
        if size > 1 and self._entropy.chance(self._path.conditions.split_rate):
            size = self._entropy.between(1, size - 1)
        protocol = self.get_protocol()
        if isinstance(protocol, asyncio.BufferedProtocol):
            self._tell(lambda: self._fill(protocol, size))
        elif isinstance(protocol, asyncio.Protocol):
            self._tell(lambda: protocol.data_received(self._take(size)))

    def _fill(self, protocol: asyncio.BufferedProtocol, size: int) -> None:
        buffer = memoryview(protocol.get_buffer(-1)).cast("B")
        if not len(buffer):
            raise RuntimeError("get_buffer() returned an empty buffer")
        taken = self._take(min(size, len(buffer)))
        buffer[: len(taken)] = taken
        buffer.release()
        protocol.buffer_updated(len(taken))

    def _take(self, size: int) -> bytes:
        taken = self._incoming.take(size)
        self._trace.fold(f"deliver {self._incoming.label}", taken)
        return taken

    def _read_end(self) -> None:
        protocol = self.get_protocol()
        stays_open = (
            isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            and protocol.eof_received()
        )
        if not stays_open:
            self.close()

    def _tell(self, callback: Callable[[], object]) -> None:
        """Calls the protocol; if it fails, so does the connection, and the loop is told why."""
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - the loop's exception handler decides
            self._loop.call_exception_handler(
                {"message": "a protocol failed", "exception": error, "transport": self}
            )
            self._break(error)

    def _break(self, error: Exception | None) -> None:
        """Closes without sending what is unsent."""
        if self.gone:
            return
        self._outgoing.drop_unsent()
        self._closing = True
        self._loop.call_soon(self._lose, error, context=self.context)

    def _lose(self, error: Exception | None) -> None:
        if self.gone:
            return
        self.gone = True
        self._hang_up()
        self._trace.fold(f"lost {self._incoming.label} {type(error).__name__}")
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def _forsake(self) -> None:
        """The program on this end is no more: its protocol hears nothing from now on."""
        self.gone = True
        self._closing = True
        self._protocol = None

    def _hang_up(self) -> None:
        """The kernel closes the socket: with a reset if something was left unread."""
        if self._incoming.inbox:
            self._outgoing.reset()
        else:
            self._outgoing.end()
