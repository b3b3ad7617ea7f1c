"""A segment that is written many batches at a time is the one that single appends would make."""

from ottla.native.batches import RetainedBatches
from ottla.protocol.batch import Record, build, read_header
from ottla.storage.compaction.cleaned_segment import CleanedSegment
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.segment import Segment
from tests.sim.seams.disk import SimDisk

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(index_interval_bytes=300)
# Times that rise and fall: an index says which batch had the largest so far.
TIMES_MS = [5, 1, 9, 9, 2, 30, 31, 4, 40, 8, 41, 2]


def batches() -> list[bytearray]:
    return [
        build([Record(10 * n, NOW_MS + time_ms, b"k", b"v" * (20 * n))], base_offset=10 * n)
        for n, time_ms in enumerate(TIMES_MS)
    ]


def joined(some: list[bytearray]) -> RetainedBatches:
    headers = [read_header(batch) for batch in some]
    return RetainedBatches(
        bytearray(b"".join(some)),
        [header.size for header in headers],
        [header.last_offset for header in headers],
        [header.max_timestamp for header in headers],
        0,
        0,
    )


def test_its_indexes_are_the_same_as_if_each_batch_had_come_alone() -> None:
    disk = SimDisk(0)
    files = disk.process()
    for directory in ("/one", "/many"):
        files.make_dir(directory)
    one = Segment.create(FilePool(files), "/one", 0, CONFIG)
    for batch in batches():
        one.append((batch,), read_header(batch))
    many = CleanedSegment.create(FilePool(files), "/many", 0, CONFIG)
    for first in range(0, len(TIMES_MS), 5):
        many.append_batches(joined(batches()[first : first + 5]))
    for segment in (one, many):
        segment.make_durable()
    assert many.largest_timestamp == one.largest_timestamp
    assert many.size_bytes == one.size_bytes
    written = disk.files()
    for suffix in (".log", ".index", ".timeindex"):
        name = f"{0:020d}{suffix}"
        assert written[f"/many/{name}"] == written[f"/one/{name}"]
        assert written[f"/many/{name}"]
