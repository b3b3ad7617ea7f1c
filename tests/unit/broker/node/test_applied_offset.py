"""A broker does not accept a metadata log that is shorter than what it has applied."""

import pytest

from ottla.broker.node.applied_offset import FILE_NAME, AppliedOffset, MetadataWentBack
from ottla.seams.files import replace_file
from tests.sim.seams.disk import SimDisk


def test_a_log_that_is_shorter_than_before_is_refused() -> None:
    disk = SimDisk()
    files = disk.process()
    files.make_dir("/data")
    files.sync_dir("/")
    applied = AppliedOffset(files, "/data")
    applied.check(-1)
    applied.save(41)
    applied.save(12)
    disk.power_loss()

    applied = AppliedOffset(disk.process(), "/data")
    applied.check(41)
    applied.check(42)
    with pytest.raises(MetadataWentBack, match=f"ends at entry 40.*entry 41.*/data/{FILE_NAME}"):
        applied.check(40)


def test_a_file_that_cannot_be_read_as_a_number_is_no_limit() -> None:
    files = SimDisk().process()
    files.make_dir("/data")
    replace_file(files, f"/data/{FILE_NAME}", b"abc")
    AppliedOffset(files, "/data").check(-1)
