"""`ottla produce`: each line of standard input becomes a record.

A chunk of input is sent as soon as it is there: what is typed goes line by line, what is piped in
goes in batches, and no timer is needed. Between chunks nothing runs, so that reading can wait.
"""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from io import BufferedReader
from typing import cast

from ottla.cli.shared.connect import in_words, router_to, with_names
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.offset_lookup import chosen_partitions
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.producer.partitioner import partition_of
from ottla.client.producer.send import produce
from ottla.client.routing.outcomes import answered
from ottla.client.routing.router import Router
from ottla.protocol.acks import Acks
from ottla.protocol.batch import Record, build
from ottla.protocol.compression import Codec
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import Clock, RealClock
from ottla.seams.entropy import Entropy, RealEntropy

CHUNK_BYTES = 64 << 10
# A line beyond this is no record that a broker would take.
LINE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """What the user wants to become of the lines."""

    topic: str
    key_separator: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    codec: Codec
    acks: Acks


class Cutter:
    """Cuts chunks of input into lines, and keeps what has no end yet."""

    def __init__(self) -> None:
        self._cut: list[bytes] = []
        self._cut_bytes = 0

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
        """What came after the last end of a line."""
        rest = b"".join(self._cut)
        self._cut, self._cut_bytes = [], 0
        return rest

    def _keep(self, piece: bytes) -> None:
        self._cut_bytes += len(piece)
        if self._cut_bytes > LINE_BYTES_MAX:
            raise Failure(f"a line is longer than {LINE_BYTES_MAX} bytes")
        if piece:
            self._cut.append(piece)


class LineSender:
    """Sends lines to the partitions where they belong. Made by `open`."""

    def __init__(
        self, router: Router, lines: Lines, partitions: int, clock: Clock, entropy: Entropy
    ) -> None:
        self.sent = 0
        self._router = router
        self._lines = lines
        self._partitions = partitions
        self._clock = clock
        # Records without a key go to one partition for a chunk, to the next one for the next.
        self._turn = entropy.below(partitions)

    @classmethod
    async def open(
        cls, router: Router, lines: Lines, clock: Clock, entropy: Entropy
    ) -> "LineSender":
        """Finds the topic, which the broker may make. Failure if it lacks the partition."""
        topic = await router.topic(lines.topic, may_create=True)
        if lines.partition is not None:
            chosen_partitions(topic, [lines.partition])
        return cls(router, lines, len(topic.partitions), clock, entropy)

    async def send(self, lines: Sequence[bytes]) -> None:
        """Returns once all are sent as `acks` says. ClientError, or Failure for a bad line."""
        grouped: dict[TopicPartition, list[Record]] = {}
        now_ms = self._clock.wall_ms()
        for number, line in enumerate(lines, self.sent + 1):
            key, value = self._key_and_value(line, number)
            records = grouped.setdefault(self._partition_of(key), [])
            records.append(Record(len(records), now_ms, key, value, self._lines.headers))
        self._turn = (self._turn + 1) % self._partitions
        batches = {
            partition: build(records, codec=self._lines.codec)
            for partition, records in grouped.items()
        }
        outcomes = await produce(self._router, batches, self._lines.acks)
        for partition, outcome in outcomes.items():
            answered(outcome)
            self.sent += len(grouped[partition])

    def _key_and_value(self, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        separator = self._lines.key_separator
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
        if self._lines.partition is not None:
            number = self._lines.partition
        elif key is not None:
            number = partition_of(key, self._partitions)
        else:
            number = self._turn
        return TopicPartition(self._lines.topic, number)


def produce_lines(lines: Lines, bootstrap: str, timeout_s: float) -> None:
    """Sends standard input to its end. Failure."""
    router = router_to(bootstrap, timeout_s)
    with in_words(bootstrap), asyncio.Runner() as runner, closing(router):
        opening = LineSender.open(router, lines, RealClock(), RealEntropy())
        sender = runner.run(with_names(router, opening))
        try:
            cutter = Cutter()
            # What is there, without waiting for a chunk to be full.
            stdin = cast("BufferedReader", sys.stdin.buffer)
            while chunk := stdin.read1(CHUNK_BYTES):
                if whole := cutter.lines(chunk):
                    runner.run(sender.send(whole))
            if rest := cutter.rest():
                runner.run(sender.send([rest]))
        finally:
            say(f"sent {counted(sender.sent, 'record')} to {lines.topic}")
