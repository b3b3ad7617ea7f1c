"""The log on a real disk: append, read, look-up, recovery."""

import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.parts.part import Part, rates
from ottla.protocol.batch import Record, build, read_header
from ottla.seams.clock import RealClock
from ottla.seams.files import Buffer, RealFile, RealFiles
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.log import Log
from ottla.storage.opening.recovery import open_log

MB = 1_000_000
SMALL_LOG_BYTES = 100 * MB


class CountingFile(RealFile):
    """Counts bytes read: a look-up must read the same amount in a log of any length."""

    read_bytes = 0

    def read_at(self, position: int, size: int) -> bytes:
        found = super().read_at(position, size)
        CountingFile.read_bytes += len(found)
        return found


class CountingFiles(RealFiles):
    def open(self, path: str, *, writable: bool = True) -> RealFile:
        return CountingFile(path, os.open(path, os.O_RDWR if writable else os.O_RDONLY))


def batch_of(records: int, value_bytes: int) -> bytes:
    value = bytes(value_bytes)
    return bytes(build([Record(index, 1_700_000_000_000, None, value) for index in range(records)]))


def reopen(directory: str, files: RealFiles | None = None, **how: int | bool) -> Log:
    pool = FilePool(files or RealFiles())
    arguments = {"is_clean": False, "recovery_point": 0} | how
    return open_log(
        pool, directory, LogConfig(), clock=RealClock(), checkpoint=lambda: None, **arguments
    ).log


@contextmanager
def empty_log() -> Iterator[Log]:
    directory = tempfile.mkdtemp(prefix="ottla-bench-")
    try:
        yield reopen(directory)
    finally:
        shutil.rmtree(directory)


def fill(log: Log, batch: Buffer, size_bytes: int) -> int:
    header = read_header(batch)
    count = size_bytes // header.size
    for _ in range(count):
        log.append(batch, header, leader_epoch=0)
    return count


def append_row(name: str, batch: bytes, size_bytes: int, estimate_us: float, because: str) -> Part:
    with empty_log() as log:
        fill(log, batch, size_bytes)  # the page cache is warm after the first round
        log.truncate(0)
        figures = rates(lambda: fill(log, batch, size_bytes // 2))
    return Part(
        name=name,
        unit="us per append",
        figures=tuple(1e6 / figure for figure in figures),
        estimate=estimate_us,
        because=because,
    )


def appending() -> Iterator[Part]:
    yield append_row(
        "append, batches of 16 KB",
        batch_of(150, 100),
        2 * SMALL_LOG_BYTES,
        17,
        "copying 16 KB to the page cache 4 us, a system call 1 us, the rest is Python",
    )
    yield append_row(
        "append, batches of one record of 100 B",
        batch_of(1, 100),
        SMALL_LOG_BYTES // 4,
        13,
        "as above, with a very small copy",
    )


def reading() -> Iterator[Part]:
    with empty_log() as log:
        fill(log, batch_of(150, 100), SMALL_LOG_BYTES * 5)

        def scan() -> float:
            offset = total = 0
            while piece := log.read(offset, bytes_max=1 << 20):
                batch = piece.read()
                total += len(batch)
                # The last batch may be incomplete: the next read begins after the whole ones.
                position = 0
                while position + 61 <= len(batch):
                    header = read_header(batch, position)
                    if position + header.size > len(batch):
                        break
                    position += header.size
                    offset = header.next_offset
            return total / MB

        yield Part(
            name="read from start to end, 1 MiB at a time",
            unit="MB/s",
            figures=rates(scan),
            estimate=1500,
            because="pread copies at 4 GB/s; a look-up and 64 headers per MiB cost 200 us",
        )


def look_ups(log_bytes: int, name: str, estimate_us: float) -> Iterator[Part]:
    """Random offsets: time and bytes read per look-up."""
    with empty_log() as writer:
        fill(writer, batch_of(150, 100), log_bytes)
        end_offset = writer.end_offset
        writer.flush()
        log = reopen(writer.directory, CountingFiles(), recovery_point=end_offset)
        chosen = random.Random(7)
        count = 5000

        def look_up() -> float:
            for _ in range(count):
                log.read(chosen.randrange(end_offset), bytes_max=1)
            return count

        look_up()
        CountingFile.read_bytes = 0
        figures = tuple(1e6 / figure for figure in rates(look_up))
        read_bytes = CountingFile.read_bytes / (3 * count)
    yield Part(
        name=f"look up a random offset, {name}",
        unit="us",
        figures=figures,
        estimate=estimate_us,
        because="a binary search of 16 entries at 1.5 us, a window of 8 KiB, two headers",
    )
    yield Part(
        name=f"bytes read for it, {name}",
        unit="B",
        figures=(read_bytes,),
        estimate=12_000,
        because="16 entries of 8 B, one window of 8 KiB, sometimes a second",
    )


def recovering(name: str, batch: bytes, estimate: float, because: str) -> Part:
    with empty_log() as writer:
        fill(writer, batch, 5 * SMALL_LOG_BYTES)

        def recover() -> float:
            return reopen(writer.directory).size_bytes / MB

        figures = rates(recover)
    return Part(
        name=f"recovery, everything beyond the recovery point, {name}",
        unit="MB/s",
        figures=figures,
        estimate=estimate,
        because=because,
    )


def measure(large_log_bytes: int) -> Sequence[Part]:
    return [
        *appending(),
        *reading(),
        *look_ups(SMALL_LOG_BYTES, "in 100 MB", 45),
        *look_ups(large_log_bytes, f"in {large_log_bytes // 1000 // MB} GB", 45),
        recovering(
            "batches of 16 KB",
            batch_of(150, 100),
            1500,
            "reading at 4 GB/s, CRC-32C at 20 GB/s, and 8 us of Python per batch",
        ),
        recovering(
            "batches of one record of 100 B",
            batch_of(1, 100),
            20,
            "8 us of Python per 170 B",
        ),
    ]
