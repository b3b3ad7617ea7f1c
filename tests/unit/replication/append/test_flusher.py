"""Flushes in a thread: shared by those who wait, and forgotten with their log."""

import asyncio

import pytest

from ottla.replication.append.flusher import Flusher
from ottla.storage.log.leader_epochs import LeaderEpochs
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads
from tests.support.replication.partitions import Partitions


def test_the_flusher_remembers_no_log_that_was_deleted() -> None:
    """Else a broker that makes and deletes topics for a year remembers all of them."""
    partitions = Partitions()
    flusher = Flusher(SimThreads(SimEntropy()))

    async def story() -> None:
        for number in range(20):
            replica = partitions.create(f"topic-{number}")
            partitions.append(replica, b"x")
            log = replica.log
            assert log is not None
            await flusher.flush(log, log.end_offset)
            assert log.recovery_point == 1
            assert len(flusher) == 1
            partitions.delete(replica)
            del log, replica
        assert len(flusher) == 0

    run(story(), clock=partitions.clock)


def test_those_who_wait_for_one_log_share_a_flush() -> None:
    partitions = Partitions()
    threads = SimThreads(SimEntropy())
    flusher = Flusher(threads)
    replica = partitions.create()
    partitions.append(replica, b"x")
    log = replica.log
    assert log is not None
    flushes = 0
    begin = log.begin_flush

    def counted() -> object:
        nonlocal flushes
        flushes += 1
        return begin()

    log.begin_flush = counted  # type: ignore[method-assign,assignment]

    async def story() -> None:
        await asyncio.gather(*(flusher.flush(log, log.end_offset) for _ in range(10)))
        assert (log.recovery_point, flushes) == (1, 1)

    run(story(), clock=partitions.clock)


def test_a_flush_of_a_deleted_log_saves_no_epochs_for_the_topic_made_anew() -> None:
    partitions = Partitions()
    threads = SimThreads(SimEntropy())
    flusher = Flusher(threads)

    async def story() -> None:
        replica = partitions.create()
        partitions.append(replica, b"x")
        log = replica.log
        assert log is not None
        threads.hold()
        flushing = asyncio.create_task(flusher.flush(log, log.end_offset))
        await asyncio.sleep(0)
        assert threads.waiting == 1
        partitions.delete(replica)
        partitions.append(partitions.create(), b"y")
        threads.release()
        await asyncio.gather(flushing, return_exceptions=True)
        new = partitions.find("events").log
        assert new is not None
        assert new.offline is None
        assert not any("epoch" in path for path in partitions.disk.files() if "-delete" not in path)
        await flusher.flush(new, new.end_offset)
        saved = partitions.disk.files()["/data/events-0/leader-epoch-checkpoint"]
        assert LeaderEpochs.decode(saved) == new.epochs

    run(story(), clock=partitions.clock)


def test_a_disk_too_full_for_a_new_epoch_refuses_the_flush_and_the_log_stays_online() -> None:
    partitions = Partitions()
    flusher = Flusher(SimThreads(SimEntropy()))
    replica = partitions.create()
    partitions.append(replica, b"x")
    log = replica.log
    assert log is not None

    async def story() -> None:
        partitions.disk.faults.fail_next_write("*epoch*")
        with pytest.raises(OSError, match="No space"):
            await flusher.flush(log, log.end_offset)
        assert (log.offline, log.recovery_point) == (None, 0)
        await flusher.flush(log, log.end_offset)
        assert log.recovery_point == 1

    run(story(), clock=partitions.clock)
