"""What compaction left out is no damage, even where nothing says how far the log was flushed."""

from pathlib import Path

import pytest

from ottla.protocol.batch import Record, build
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.log import Log
from ottla.storage.opening.recovery import open_log


def reopen(directory: Path, cleaned_offset: int) -> Log:
    return open_log(
        FilePool(RealFiles()),
        str(directory),
        LogConfig(segment_bytes=1024),
        is_clean=False,
        cleaned_offset=cleaned_offset,
        clock=RealClock(),
        checkpoint=lambda: None,
    ).log


@pytest.fixture
def holed(tmp_path: Path) -> tuple[Path, int]:
    """A log without its second segment, and where it ends."""
    log = reopen(tmp_path, 0)
    for offset in range(10):
        batch = build([Record(offset, 1000, b"key", bytes(500))], base_offset=offset)
        log.append_replicated(bytes(batch))
    second = log.segments[1]
    log.abandon()
    second.remove()
    return tmp_path, log.end_offset


def test_a_hole_in_what_was_compacted_is_kept(holed: tuple[Path, int]) -> None:
    directory, end_offset = holed
    assert reopen(directory, cleaned_offset=end_offset).end_offset == end_offset


def test_a_hole_in_what_nobody_compacted_is_lost_data_and_ends_the_log(
    holed: tuple[Path, int],
) -> None:
    directory, end_offset = holed
    assert 0 < reopen(directory, cleaned_offset=0).end_offset < end_offset
