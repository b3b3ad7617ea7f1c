"""Compaction on a real disk: a log with ten records per key, by batch size."""

import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from benchmarks.parts.part import Part, rates
from ottla.protocol.batch import Record, build, read_header
from ottla.protocol.compression import Codec
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import RealFiles
from ottla.storage.compaction.cleaner_protocol import CleaningJob
from ottla.storage.compaction.cleaner_worker import CleanerWorker
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.log import Log
from ottla.storage.opening.recovery import open_log

MB = 1_000_000
NOW_MS = 1_700_000_000_000
RECORDS_PER_KEY = 10
VALUE_BYTES = 84
RECORD_BYTES = 100
SEGMENT_BYTES = 64 << 20


def filled(directory: str, size_bytes: int, records_per_batch: int, codec: Codec) -> Log:
    """A log of random keys, all but its last segment closed."""
    chosen = random.Random(7)
    keys = size_bytes // RECORD_BYTES // RECORDS_PER_KEY
    log = open_log(
        FilePool(RealFiles()),
        directory,
        LogConfig(segment_bytes=SEGMENT_BYTES),
        is_clean=False,
        recovery_point=0,
        clock=RealClock(),
        checkpoint=lambda: None,
    ).log
    values = [chosen.randbytes(VALUE_BYTES // 2).hex().encode() for _ in range(1000)]
    while log.size_bytes < size_bytes:
        batch = build(
            [
                Record(index, NOW_MS, b"key-%08d" % chosen.randrange(keys), chosen.choice(values))
                for index in range(records_per_batch)
            ],
            codec=codec,
        )
        log.append(batch, read_header(batch), leader_epoch=0)
    log.roll()
    log.flush()
    return log


@contextmanager
def a_log(size_bytes: int, records_per_batch: int, codec: Codec) -> Iterator[Log]:
    directory = tempfile.mkdtemp(prefix="ottla-bench-")
    try:
        yield filled(directory, size_bytes, records_per_batch, codec)
    finally:
        shutil.rmtree(directory)


def cleaning_job(log: Log) -> CleaningJob:
    return CleaningJob(
        directory=log.directory,
        segments=[
            (segment.base_offset, following.base_offset, segment.size_bytes)
            for segment, following in pairwise(log.segments)
        ],
        first_dirty_offset=0,
        now_ms=NOW_MS,
        delete_retention_ms=86_400_000,
        segment_bytes=SEGMENT_BYTES,
        index_bytes_max=10 << 20,
        index_interval_bytes=4096,
        decompressed_bytes_max=128 << 20,
        key_map_bytes_max=128 << 20,
        key_map_load_factor=0.9,
        window_bytes=512 << 10,
        bytes_per_second=1e12,
    )


def compact(job: CleaningJob) -> dict[str, Any]:
    """Leaves the outputs beside the log and the log unchanged, so that rounds are equal."""
    worker = CleanerWorker(RealFiles(), RealEntropy(), RealClock(), sleeps=False)
    question: dict[str, Any] = {"clean": job.as_json()}
    while True:
        answer: dict[str, Any] = json.loads(worker.answer(json.dumps(question).encode()))
        if "done" in answer:
            return dict(answer["done"])
        if "failed" in answer:
            raise RuntimeError(answer["failed"]["why"])
        question = {"go_on": True}


def compacting(
    name: str,
    size_bytes: int,
    records_per_batch: int,
    estimate: float,
    because: str,
    codec: Codec = Codec.NONE,
) -> Part:
    with a_log(size_bytes, records_per_batch, codec) as log:
        job = cleaning_job(log)

        def clean() -> float:
            compact(job)
            return log.size_bytes / MB

        figures = rates(clean)
    return Part(
        name=f"compaction, {name}",
        unit="MB/s of log",
        figures=figures,
        estimate=estimate,
        because=because,
    )


def measure(size_bytes: int) -> Sequence[Part]:
    return [
        compacting(
            "batches of 16 KB of 100 B records",
            size_bytes,
            150,
            200,
            "two passes per record of 0.1 us to read, 0.05 us to hash and 0.05 us to look up",
        ),
        compacting(
            "batches of 16 KB of 100 B records, lz4",
            size_bytes // 4,
            150,
            60,
            "as above for the decompressed size, twice as large, and compression of the result",
            Codec.LZ4,
        ),
        compacting(
            "batches of one record of 100 B",
            size_bytes // 4,
            1,
            80,
            "a record in 170 B, as above; three checksums and copies per batch of 0.3 us each",
        ),
    ]
