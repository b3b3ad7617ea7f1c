from ottla.seams.files import File
from ottla.storage.log.writeback import WRITEBACK_BYTES, WritebackDue
from tests.support.storage.workbench import Workbench, fill


class Starter:
    """Starts writebacks, unless it is busy or the disk refuses."""

    def __init__(self) -> None:
        self.started: list[tuple[int, int]] = []
        self.is_busy = False
        self.error: OSError | None = None

    def __call__(self, _file: File, position: int, size: int) -> bool:
        if self.error is not None:
            raise self.error
        if self.is_busy:
            return False
        self.started.append((position, size))
        return True


def test_writeback_is_due_after_so_many_bytes_and_starts_where_the_last_ended(
    sim_bench: Workbench,
) -> None:
    log = sim_bench.open()
    segment = log.segments[-1]
    due, starter = WritebackDue(segment), Starter()
    due.start = starter
    assert due.due_bytes == segment.size_bytes + WRITEBACK_BYTES
    fill(log, 1)
    due.offer(segment)
    first = segment.size_bytes
    fill(log, 1)
    due.offer(segment)
    assert starter.started == [(0, first), (first, segment.size_bytes - first)]
    assert due.due_bytes == segment.size_bytes + WRITEBACK_BYTES


def test_a_busy_or_failing_starter_is_asked_again_for_the_same_bytes(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    segment = log.segments[-1]
    due, starter = WritebackDue(segment), Starter()
    due.start = starter
    fill(log, 1)
    starter.is_busy = True
    due.offer(segment)
    starter.error = OSError("no")
    due.offer(segment)
    assert due.due_bytes == WRITEBACK_BYTES
    starter.is_busy, starter.error = False, None
    due.offer(segment)
    assert starter.started == [(0, segment.size_bytes)]


def test_a_roll_or_a_truncation_counts_from_the_new_size(sim_bench: Workbench) -> None:
    due = WritebackDue(sim_bench.open().segments[-1])
    due.begin_at(500)
    assert due.due_bytes == 500 + WRITEBACK_BYTES
