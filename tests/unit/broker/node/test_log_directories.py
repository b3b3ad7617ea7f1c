"""Several log.dirs: one that fails or disappears takes only its own partitions offline."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.incarnation import read_incarnation
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.storage.directory.placements import FILE_NAME
from tests.sim.seams.loop import SimulationStuckError, run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

TWO = {"log_dirs": "/a,/b"}
NOTES = f"/a/{FILE_NAME}"
Story = Callable[[Machine], Coroutine[Any, Any, None]]


def tell(story: Story) -> None:
    machine = Machine()
    run(story(machine), clock=machine.clock)


async def write(client: Client, topic: str, value: bytes) -> int:
    return int(only(await client.ask(produce(topic, batch(value)), 9)).error_code)


async def read(client: Client, topic: str) -> list[bytes | None] | ErrorCode:
    found = only(await client.ask(fetch(topic, wanted(offset=0)), 12))
    return values(found.records) if found.error_code == 0 else ErrorCode(found.error_code)


def homes(machine: Machine) -> dict[str, str]:
    """The log directory of every partition that has one."""
    paths = [path.split("/") for path in machine.disk.files() if path.endswith(".log")]
    return {path[2]: path[1] for path in paths if not path[2].startswith("__")}


async def two_topics(machine: Machine) -> tuple[str, str]:
    """A topic in the first directory, one in the second, and one without a log."""
    async with machine.broker(**TWO) as client:
        for topic in ("one", "two", "empty"):
            await create(client, new_topic(topic))
        for topic in ("one", "two"):
            assert await write(client, topic, topic.encode()) == 0
    found = {home: partition.removesuffix("-0") for partition, home in homes(machine).items()}
    return found["a"], found["b"]


def fail_opening(machine: Machine) -> None:
    machine.disk.faults.fail_next("lock", "/b/*", error=errno.EIO)
    machine.disk.faults.fail_next("lock", "/b/*", error=errno.EIO)


def unmount(machine: Machine) -> None:
    """Leaves an empty directory."""
    files = machine.disk.process()
    files.rename("/b", "/not-mounted")
    files.make_dir("/b")


def take_away(machine: Machine) -> None:
    machine.disk.process().rename("/b", "/not-mounted")


def mount(machine: Machine) -> None:
    files = machine.disk.process()
    if files.is_dir("/not-mounted"):
        if files.is_dir("/b"):
            files.rename("/b", "/beneath")
        files.rename("/not-mounted", "/b")


WAYS = pytest.mark.parametrize("lose", [fail_opening, unmount, take_away])


@WAYS
def test_a_partition_of_a_failed_directory_is_offline_and_not_recreated_elsewhere(
    lose: Callable[[Machine], None],
) -> None:
    async def story(machine: Machine) -> None:
        kept, lost = await two_topics(machine)
        for _ in range(2):
            lose(machine)
            async with machine.running(**TWO) as (client, node):
                assert await read(client, lost) is ErrorCode.KAFKA_STORAGE_ERROR
                assert await write(client, lost, b"no") == ErrorCode.KAFKA_STORAGE_ERROR
                assert await read(client, lost) is ErrorCode.KAFKA_STORAGE_ERROR
                assert (await read(client, kept)) == [kept.encode()]
                assert await write(client, "empty", b"yes") == 0, "it never had a log"
                assert list(node._directories.failed if node._directories else ()) == ["/b"]
            assert homes(machine).get(f"{lost}-0") in ("b", "not-mounted")
            mount(machine)
        async with machine.broker(**TWO) as client:
            assert (await read(client, lost)) == [lost.encode()]
            assert await write(client, lost, b"more") == 0

    tell(story)


def test_a_directory_removed_from_the_settings_takes_its_partitions_offline() -> None:
    async def story(machine: Machine) -> None:
        kept, lost = await two_topics(machine)
        async with machine.broker(log_dirs="/a") as client:
            assert await write(client, lost, b"no") == ErrorCode.KAFKA_STORAGE_ERROR
            assert await write(client, kept, b"yes") == 0
        async with machine.broker(**TWO) as client:
            assert (await read(client, lost)) == [lost.encode()]

    tell(story)


@pytest.mark.parametrize("comes_back", [True, False])
def test_without_placements_of_an_earlier_version_every_empty_partition_is_offline(
    comes_back: bool,
) -> None:
    async def story(machine: Machine) -> None:
        _kept, lost = await two_topics(machine)
        machine.disk.process().remove(NOTES)
        for _ in range(2):
            machine.disk.faults.fail_next("lock", "/b/*", error=errno.EIO)
            machine.disk.faults.fail_next("lock", "/b/*", error=errno.EIO)
            async with machine.broker(**TWO) as client:
                for topic in (lost, "empty"):
                    assert await write(client, topic, b"no") == ErrorCode.KAFKA_STORAGE_ERROR
                await create(client, new_topic("new"))
                assert await write(client, "new", b"yes") == 0
                await client.ask(DeleteTopicsRequest(topic_names=("new",), timeout_ms=1_000), 5)
        settings = TWO if comes_back else {"log_dirs": "/a"}
        async with machine.broker(**settings) as client:
            expected = 0 if comes_back else ErrorCode.KAFKA_STORAGE_ERROR
            for topic in (lost, "empty"):
                assert await write(client, topic, b"?") == expected

    tell(story)


def test_the_placements_of_a_removed_directory_can_be_deleted() -> None:
    async def story(machine: Machine) -> None:
        _kept, lost = await two_topics(machine)
        machine.disk.process().remove(NOTES)
        async with machine.broker(log_dirs="/a") as client:
            assert await write(client, lost, b"anew") == 0

    tell(story)


def test_a_lost_topic_can_be_deleted_and_recreated() -> None:
    async def story(machine: Machine) -> None:
        _kept, lost = await two_topics(machine)
        take_away(machine)
        async with machine.broker(**TWO) as client:
            request = DeleteTopicsRequest(topic_names=(lost,), timeout_ms=1_000)
            assert [each.error_code for each in (await client.ask(request, 5)).responses] == [0]
            await create(client, new_topic(lost))
            assert await write(client, lost, b"anew") == 0
        async with machine.broker(**TWO) as client:
            assert (await read(client, lost)) == [b"anew"]
        mount(machine)
        async with machine.broker(**TWO) as client:
            assert (await read(client, lost)) == [b"anew"], "the old one is set aside"

    tell(story)


@pytest.mark.parametrize("seed", range(8))
def test_placements_survive_a_power_loss_while_a_log_is_created(seed: int) -> None:
    """Either the second directory has no log, or its absence is detected."""

    async def story() -> None:
        node = machine.node(**TWO)
        await node.start()
        client = await machine.client()
        for topic in ("one", "two"):
            await create(client, new_topic(topic, configs={"flush.messages": "1"}))
            assert await write(client, topic, b"x") == 0
        assert machine.files is not None
        machine.files.crash()

    machine = Machine(seed)
    run(story(), clock=machine.clock)
    machine.net.power_loss()
    machine.disk.power_loss()
    machine.net.boot()

    async def later() -> None:
        lost = next(name for name, home in homes(machine).items() if home == "b")
        take_away(machine)
        async with machine.broker(**TWO) as client:
            topic = lost.removesuffix("-0")
            assert await write(client, topic, b"no") == ErrorCode.KAFKA_STORAGE_ERROR

    run(later(), clock=machine.clock)


def test_a_single_directory_needs_no_placements() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker() as client:
            await create(client, new_topic("one"))
            assert await write(client, "one", b"x") == 0
        assert not [path for path in machine.disk.files() if path.endswith(FILE_NAME)]

    tell(story)


# --- a clean stop -----------------------------------------------------------------------------


def is_clean(machine: Machine, home: str) -> bool:
    saved = read_incarnation(machine.disk.process(), home)
    assert saved is not None
    return saved.clean


def test_a_stop_is_not_clean_if_a_log_could_not_be_closed() -> None:
    async def story(machine: Machine) -> None:
        async with machine.broker() as client:
            await create(client, new_topic("one"))
            assert await write(client, "one", b"x") == 0
            machine.disk.faults.fail_next_sync("*/one-0/*.log")
        assert not is_clean(machine, "/data")
        assert "/data/.kafka_cleanshutdown" not in machine.disk.files()
        async with machine.broker() as client:
            pass
        assert is_clean(machine, "/data")

    tell(story)


@pytest.mark.parametrize("operation", ["sync", "rename"])
def test_a_directory_that_fails_at_the_stop_does_not_affect_the_others(
    operation: Any,
) -> None:
    async def story(machine: Machine) -> None:
        await two_topics(machine)
        async with machine.broker(**TWO):
            machine.disk.faults.fail_next(operation, "/a/recovery-point*", error=errno.EIO)
        assert not is_clean(machine, "/a")
        assert "/a/.kafka_cleanshutdown" not in machine.disk.files()
        assert "/b/.kafka_cleanshutdown" in machine.disk.files()
        assert "not closed cleanly" in machine.notes.events("error")

    tell(story)


def test_a_stop_without_a_directory_is_not_clean() -> None:
    """The missing logs may not have been closed, so they are not trusted after a reboot."""

    async def story(machine: Machine) -> None:
        await two_topics(machine)
        assert is_clean(machine, "/a")
        fail_opening(machine)
        async with machine.broker(**TWO):
            pass
        assert not is_clean(machine, "/a")

    tell(story)


# --- a start that ends before it serves -------------------------------------------------------


class Killed(BaseException):
    """Stands for the end of the process."""


async def die_at(machine: Machine, count: int) -> bool:
    """Starts a broker that dies just before the given disk operation; whether it died."""
    harmless, left = machine.disk.faults.error_for, count

    def error_for(operation: Any, path: str) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return harmless(operation, path)

    node = machine.node()
    machine.disk.faults.error_for = error_for  # type: ignore[method-assign]
    try:
        await node.start()
    except BaseException as error:
        if left >= 0:
            raise
        del error
        return True
    finally:
        machine.disk.faults.error_for = harmless  # type: ignore[method-assign]
        if left >= 0:
            await node.stop()
        elif machine.files is not None:
            machine.files.crash()
    return False


@pytest.mark.parametrize("loses_power", [True, False])
def test_a_start_killed_at_any_step_loses_no_isr_membership(loses_power: bool) -> None:
    """The start served no client, so the next one inherits its memberships."""

    async def begin(machine: Machine) -> None:
        async with machine.broker() as client:
            await create(client, new_topic("one", 3))
            assert await write(client, "one", b"x") == 0

    async def attempt(machine: Machine, count: int) -> bool:
        died = await die_at(machine, count)
        for task in asyncio.all_tasks() - {asyncio.current_task()} if died else ():
            task.cancel()
        return died

    async def end(machine: Machine) -> None:
        async with machine.broker() as client:
            assert (await read(client, "one")) == [b"x"]

    for count in range(0, 400, 3):
        machine = Machine(count)
        run(begin(machine), clock=machine.clock)
        served = read_incarnation(machine.disk.process(), "/data")
        assert served is not None
        if not _ran_into(attempt, machine, count):
            break
        after = read_incarnation(machine.disk.process(), "/data")
        assert after is not None
        if loses_power and after.incarnation_id != served.incarnation_id:
            break  # it was about to serve, and had saved so
        machine.net.power_loss()
        if loses_power:
            machine.disk.power_loss()
        machine.net.boot()
        run(end(machine), clock=machine.clock)
        assert "possible data loss" not in machine.notes.events("warning"), count
    else:
        pytest.fail("the start never ended")
    assert count > 50


def _ran_into(attempt: Any, machine: Machine, count: int) -> bool:
    try:
        return bool(run(attempt(machine, count), clock=machine.clock))
    except (Killed, SimulationStuckError):
        # It died in a thread, so the exception is never retrieved.
        return True
