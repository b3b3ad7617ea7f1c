"""The cost of a leader's checks of a batch: its checksum, and the structure of its records."""

import time
from collections.abc import Callable, Iterator

from crc32c import crc32c

from benchmarks.parts.part import Part
from ottla.native.scan import survey
from ottla.protocol.batch import CRC_START, HEADER_BYTES, Record, build, read_header

NOW_MS = 1_700_000_000_000
BATCH_BYTES = 16_384
# Enough to measure, and few enough for every run of the benchmark.
CHECKED_BYTES = 500_000_000
REPEATS = 3


def measure() -> Iterator[Part]:
    for record_bytes, estimate in ((100, 0.15), (1024, 0.015)):
        batch = memoryview(_batch(record_bytes))
        header = read_header(batch)

        def checksum(batch: memoryview = batch) -> object:
            return crc32c(batch[CRC_START:])

        def structure(
            batch: memoryview = batch,
            count: int = header.count,
            base_ms: int = header.base_timestamp,
        ) -> object:
            return survey(batch, HEADER_BYTES, 0, count, base_ms)

        what = f"a leader checks 16 KB batches of {record_bytes} B records"
        yield Part(
            name=f"{what}: their structure",
            unit="s/GB",
            figures=_seconds_per_gb(structure, len(batch)),
            estimate=estimate,
            because="15 ns per record, 0.3 us per call",
        )
        yield Part(
            name=f"{what}: their checksum",
            unit="s/GB",
            figures=_seconds_per_gb(checksum, len(batch)),
            estimate=0.05,
            because="23 GB/s, 0.1 us per call",
        )


def _batch(record_bytes: int) -> bytearray:
    value = bytes(record_bytes)
    count = BATCH_BYTES // record_bytes
    return build([Record(number, NOW_MS + number, None, value) for number in range(count)])


def _seconds_per_gb(check: Callable[[], object], batch_bytes: int) -> tuple[float, ...]:
    found = []
    calls = CHECKED_BYTES // batch_bytes
    for _ in range(REPEATS):
        started = time.perf_counter()
        for _ in range(calls):
            check()
        found.append((time.perf_counter() - started) / (calls * batch_bytes) * 1e9)
    return tuple(found)
