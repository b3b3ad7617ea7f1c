"""`ottla produce`: sends each line of standard input as a record.

Each chunk of input is sent as soon as it is read: typed input line by line, piped input in batches,
without a timer. The event loop does not run between chunks, so reading can block.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from io import BufferedReader
from typing import cast

from ottla.cli.shared.connect import client_errors_as_failures, router_to, with_name_suggestions
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.offset_lookup import chosen_partitions
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.producer.partitioner import partition_of
from ottla.client.producer.send import produce
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.protocol.acks import Acks
from ottla.protocol.batch import Record, build
from ottla.protocol.compression import Codec
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import Clock, RealClock
from ottla.seams.entropy import Entropy, RealEntropy

CHUNK_BYTES = 64 << 10
# A longer line is a record that no broker would accept.
LINE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """The options of `ottla produce`."""

    topic: str
    key_separator: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    codec: Codec
    acks: Acks


class LineSplitter:
    """Splits chunks of input into lines, and keeps an incomplete line."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def lines(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes. Failure if one is too long."""
        first, *others = chunk.split(b"\n")
        self._keep(first)
        if not others:
            return []
        *whole, rest = others
        found = [self.rest(), *whole]
        self._keep(rest)
        return found

    def rest(self) -> bytes:
        """The incomplete line after the last newline."""
        rest = b"".join(self._pending)
        self._pending, self._pending_bytes = [], 0
        return rest

    def _keep(self, piece: bytes) -> None:
        self._pending_bytes += len(piece)
        if self._pending_bytes > LINE_BYTES_MAX:
            raise Failure(f"a line is longer than {LINE_BYTES_MAX} bytes")
        if piece:
            self._pending.append(piece)


class LineSender:
    """Sends lines to their partitions. Created by `open`."""

    def __init__(
        self,
        router: Router,
        options: ProduceOptions,
        *,
        partitions: int,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self.sent = 0
        self._router = router
        self._options = options
        self._partitions = partitions
        self._clock = clock
        # Records without a key go to one partition per chunk, in turn.
        self._keyless_partition = entropy.below(partitions)

    @classmethod
    async def open(
        cls, router: Router, options: ProduceOptions, clock: Clock, entropy: Entropy
    ) -> "LineSender":
        """Finds the topic, which the broker may create. Failure if it lacks the partition."""
        topic = await router.topic(options.topic, may_create=True)
        if options.partition is not None:
            chosen_partitions(topic, [options.partition])
        partitions = len(topic.partitions)
        return cls(router, options, partitions=partitions, clock=clock, entropy=entropy)

    async def send(self, lines: Sequence[bytes]) -> None:
        """Returns once all lines are acknowledged as `acks` requires. ClientError, or Failure for a
        bad line."""
        grouped: dict[TopicPartition, list[Record]] = {}
        now_ms = self._clock.wall_ms()
        for number, line in enumerate(lines, self.sent + 1):
            key, value = self._key_and_value(line, number)
            records = grouped.setdefault(self._partition_of(key), [])
            records.append(Record(len(records), now_ms, key, value, self._options.headers))
        self._keyless_partition = (self._keyless_partition + 1) % self._partitions
        batches = {
            partition: build(records, codec=self._options.codec)
            for partition, records in grouped.items()
        }
        outcomes = await produce(self._router, batches, self._options.acks)
        for partition, outcome in outcomes.items():
            unwrap(outcome)
            self.sent += len(grouped[partition])

    def _key_and_value(self, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        separator = self._options.key_separator
        if separator is None:
            return None, line
        key, found, value = line.partition(separator)
        if not found:
            raise Failure(
                f"line {number} has no key separator {separator.decode()!r}",
                why=f"{self.sent} records before it were sent",
            )
        return key, value

    def _partition_of(self, key: bytes | None) -> TopicPartition:
        if self._options.partition is not None:
            number = self._options.partition
        elif key is not None:
            number = partition_of(key, self._partitions)
        else:
            number = self._keyless_partition
        return TopicPartition(self._options.topic, number)


def produce_lines(options: ProduceOptions, bootstrap: str, timeout_s: float) -> None:
    """Sends all lines of standard input. Failure."""
    router = router_to(bootstrap, timeout_s)
    with client_errors_as_failures(bootstrap), asyncio.Runner() as runner, closing(router):
        opening = LineSender.open(router, options, RealClock(), RealEntropy())
        sender = runner.run(with_name_suggestions(router, opening))
        try:
            splitter = LineSplitter()
            # read1 returns the available bytes without waiting for a full chunk.
            stdin = cast("BufferedReader", sys.stdin.buffer)
            while chunk := stdin.read1(CHUNK_BYTES):
                if whole := splitter.lines(chunk):
                    runner.run(sender.send(whole))
            if rest := splitter.rest():
                runner.run(sender.send([rest]))
        finally:
            say(f"sent {counted(sender.sent, 'record')} to {options.topic}")
