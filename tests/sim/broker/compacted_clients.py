"""Who writes keys to a compacted topic, and who reads it from any offset to its end."""

import asyncio
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.batch import HEADER_BYTES, build, crc_is_valid, read_header, records
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.sim.broker.compacted_history import CompactedHistory, Sent
from tests.sim.broker.line import Line
from tests.sim.broker.world import MAIN_TOPIC, World
from tests.support.broker.produce_and_fetch import fetch, only, produce, wanted

KEYS_A_WRITER = 5
RECORDS_A_BATCH_MAX = 3
INIT_PRODUCER_ID_VERSION = 4
PRODUCE_VERSION = 9
FETCH_VERSION = 12


class GiveUpError(Exception):
    """The broker cannot serve the partition now."""


class Writer:
    """Writes its own keys, a batch at a time, and deletes some of them.

    With an id it repeats a batch until that is acknowledged; without one it never does.
    """

    def __init__(
        self, world: World, history: CompactedHistory, name: str, *, is_idempotent: bool
    ) -> None:
        self.name = name
        self._world = world
        self._history = history
        self._entropy = world.entropy.fork(name)
        self._is_idempotent = is_idempotent
        self._producer_id = -1
        self._sequence = 0
        self._unacknowledged: tuple[list[Sent], bytes] | None = None

    async def run(self) -> None:
        while not self._is_done:
            try:
                line = await Line.open(self._world.machine, self.name)
                try:
                    await self._write(line)
                finally:
                    line.close()
            except (OSError, TimeoutError, GiveUpError):
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)

    @property
    def _is_done(self) -> bool:
        return self._world.is_calm and self._unacknowledged is None

    async def _write(self, line: Line) -> None:
        if self._is_idempotent and self._producer_id < 0:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            response = await line.ask(request, INIT_PRODUCER_ID_VERSION)
            _check_code(response.error_code)
            self._producer_id = response.producer_id
        while not self._is_done:
            sent, content = self._next_batch()
            result = only(await line.ask(produce(MAIN_TOPIC, content), PRODUCE_VERSION))
            _check_code(result.error_code)
            self._history.acknowledge(result.base_offset, sent)
            self._unacknowledged = None
            if not self._world.is_calm:
                await asyncio.sleep(self._entropy.between(0, 300) / 1e3)

    def _next_batch(self) -> tuple[list[Sent], bytes]:
        if self._unacknowledged is not None:
            return self._unacknowledged
        sent = [self._send() for _ in range(self._entropy.between(1, RECORDS_A_BATCH_MAX))]
        content = build(
            [each.record(index) for index, each in enumerate(sent)],
            producer_id=self._producer_id,
            producer_epoch=0 if self._is_idempotent else -1,
            base_sequence=self._sequence if self._is_idempotent else -1,
        )
        self._sequence += len(sent)
        batch = sent, bytes(content)
        if self._is_idempotent:
            self._unacknowledged = batch
        return batch

    def _send(self) -> Sent:
        key = f"{self.name}-{self._entropy.below(KEYS_A_WRITER)}".encode()
        value = None if self._entropy.chance(0.25) else b"." * self._entropy.pick((0, 10, 300))
        return self._history.send(key, value, self._world.machine.clock.wall_ms())


class Reader:
    """Reads to the end again and again, mostly from the start."""

    def __init__(self, world: World, history: CompactedHistory, name: str) -> None:
        self.name = name
        self.reads = 0
        self._world = world
        self._history = history
        self._entropy = world.entropy.fork(name)
        self._bytes_max = self._entropy.pick((1, 500, 1 << 20))

    async def run(self) -> None:
        while not self._world.is_calm:
            start_offset = 0
            if self._entropy.chance(0.4):
                start_offset = self._entropy.below(self._history.acknowledged_end + 1)
            try:
                await self.read(start_offset)
            except (OSError, TimeoutError, GiveUpError):
                await asyncio.sleep(self._entropy.between(1, 300) / 1e3)
            await asyncio.sleep(self._entropy.between(0, 500) / 1e3)

    async def read(self, start_offset: int = 0) -> dict[int, bytes]:
        """Keys by offset, all of them checked."""
        line = await Line.open(self._world.machine, self.name)
        promised = dict(self._history.acknowledged)
        try:
            served = await self._read_to_end(line, start_offset)
        finally:
            line.close()
        now_ms = self._world.machine.clock.wall_ms()
        self._history.check(served, promised, start_offset, now_ms)
        self.reads += 1
        return served

    async def _read_to_end(self, line: Line, start_offset: int) -> dict[int, bytes]:
        served: dict[int, bytes] = {}
        offset = start_offset
        while True:
            request = fetch(MAIN_TOPIC, wanted(0, offset, bytes_max=self._bytes_max))
            result = only(await line.ask(request, FETCH_VERSION))
            if result.error_code:
                self._world.accept_error(0, result.error_code, line.life)
                raise GiveUpError
            if line.power_losses != self._world.machine.power_losses:
                raise GiveUpError  # an answer from before, of what may be gone
            next_offset = self._take(result.records, offset, served)
            if next_offset == offset:
                assert offset >= result.high_watermark, f"nothing at {offset} of {result}"
                return served
            offset = next_offset

    def _take(self, content: Any, offset: int, served: dict[int, bytes]) -> int:
        """Notes what is in a reply; where to go on."""
        view, position = memoryview(content), 0
        while len(view) - position >= HEADER_BYTES:
            header = read_header(view, position)
            batch = view[position : position + header.size]
            if len(batch) < header.size:
                break
            assert crc_is_valid(batch, header), f"a damaged batch at {header.base_offset}"
            assert header.last_offset >= offset, f"a batch to {header.last_offset} behind {offset}"
            for record in records(batch):
                if record.offset >= offset:
                    self._history.see(record)
                    served[record.offset] = record.key or b""
            offset = header.next_offset
            position += header.size
        return offset


def _check_code(code: int) -> None:
    if code == ErrorCode.KAFKA_STORAGE_ERROR:
        raise GiveUpError
    assert code == ErrorCode.NONE, f"error {code}"
