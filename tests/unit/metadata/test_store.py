"""The contract of `MetadataStore`, for every store."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.metadata.entry_codec import EntryTooLarge
from ottla.metadata.image import Image
from ottla.metadata.records import Config, ControllerStarted, InvalidRecord, Record
from ottla.metadata.store import (
    EntriesGone,
    Entry,
    Fence,
    Fenced,
    Loaded,
    MetadataStore,
    RegisteredBroker,
    Snapshot,
    StoreClosed,
)
from ottla.metadata.values import Incarnation, ResourceKind
from tests.support.metadata.sample_records import ONE_OF_EACH, partition, registration
from tests.support.metadata.store_kinds import (
    Memory,
    RealDirectory,
    SimMachine,
    SimulatedZooKeeper,
    StorePlace,
    ThreadedMachine,
)

WAIT_S = 60.0


@pytest.fixture(
    params=[
        "embedded",
        "embedded, simulated disk",
        "embedded, simulated threads",
        "memory",
        "ZooKeeper",
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StorePlace:
    if request.param == "embedded":
        return RealDirectory(tmp_path)
    if request.param == "memory":
        return Memory()
    if request.param == "ZooKeeper":
        return SimulatedZooKeeper(seed=len(request.node.name))
    machine = ThreadedMachine if request.param == "embedded, simulated threads" else SimMachine
    return machine(seed=len(request.node.name))


def setting(number: int) -> Record:
    return Config(ResourceKind.BROKER, "", f"key-{number}", str(number))


async def append(store: MetadataStore, fence: Fence, *numbers: int) -> list[int]:
    return [await store.append([setting(number)], fence) for number in numbers]


async def take(entries: AsyncIterator[Entry], count: int) -> list[Entry]:
    return [await asyncio.wait_for(anext(entries), WAIT_S) for _ in range(count)]


async def saved_up_to_now(store: MetadataStore, fence: Fence) -> Snapshot:
    snapshot = Image.of(await store.load()).snapshot()
    await store.save(snapshot, fence)
    return snapshot


def test_a_new_store_is_empty(place: StorePlace) -> None:
    async def steps() -> None:
        loaded = await place.open().load()
        assert loaded.snapshot.records == ()
        assert loaded.entries == ()
        assert loaded.next_offset == loaded.snapshot.offset + 1
        assert Image.of(loaded) == Image()

    place.run(steps())


def test_offsets_are_in_the_order_of_the_appends(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        first_offset = (await store.load()).next_offset
        fence = await store.campaign()
        numbers = await append(store, fence, *range(5))
        assert numbers == list(range(first_offset, first_offset + 5))
        loaded = await store.load()
        assert loaded.entries == tuple(
            Entry(n, (setting(index),)) for index, n in enumerate(numbers)
        )
        assert loaded.next_offset == numbers[-1] + 1

    place.run(steps())


def test_appends_that_overlap_keep_the_order_of_the_calls(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(store.append([setting(number)], fence))
        loaded = await store.load()
        assert [entry.records for entry in loaded.entries] == [
            (setting(number),) for number in range(20)
        ]

    place.run(steps())


def test_the_loaded_image_has_all_appended_records(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        image = Image()
        for record in ONE_OF_EACH:
            image.apply(record)
        await store.append(ONE_OF_EACH[:4], fence)
        await store.append((), fence)
        await store.append(ONE_OF_EACH[4:], fence)
        assert Image.of(await store.load()) == image

    place.run(steps())


def test_a_follower_sees_every_entry_once_and_in_order(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        first_offset, *_ = await append(store, fence, 0, 1, 2)
        follower = store.follow(first_offset)
        entries = await take(follower, 3)
        waiting = asyncio.create_task(take(follower, 4))
        await asyncio.sleep(0)
        assert not waiting.done()
        await append(store, fence, 3, 4)
        await asyncio.sleep(0)
        await append(store, fence, 5, 6)
        entries += await waiting
        assert entries == [Entry(first_offset + index, (setting(index),)) for index in range(7)]

    place.run(steps())


def test_followers_may_start_at_any_offset(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        first_offset, *_ = await append(store, fence, *range(4))
        for start in range(6):
            follower = store.follow(first_offset + start)
            await append(store, fence, 4 + start, 5 + start)
            found = await take(follower, 2)
            assert [entry.offset for entry in found] == [
                first_offset + start,
                first_offset + start + 1,
            ]

    place.run(steps())


def test_a_follower_waits_for_a_future_offset(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        next_offset = (await store.load()).next_offset
        waiting = asyncio.create_task(take(store.follow(next_offset + 2), 1))
        await append(store, fence, 0, 1)
        await place.quiet(1)
        assert not waiting.done()
        await append(store, fence, 2)
        assert await waiting == [Entry(next_offset + 2, (setting(2),))]

    place.run(steps())


def test_loading_and_following_leave_no_gap(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        await append(store, fence, 0, 1)
        loaded = await store.load()
        await append(store, fence, 2, 3)
        image = Image.of(loaded)
        for entry in await take(store.follow(loaded.next_offset), 2):
            image.replay(entry)
        assert image == Image.of(await store.load())

    place.run(steps())


def test_a_second_campaign_fences_the_first(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        first = await store.campaign()
        await append(store, first, 0)
        second = await store.campaign()
        assert second.epoch > first.epoch
        with pytest.raises(Fenced):
            await append(store, first, 1)
        with pytest.raises(Fenced):
            await store.save(Image.of(await store.load()).snapshot(), first)
        await append(store, second, 2)
        loaded = await store.load()
        assert [entry.records for entry in loaded.entries] == [(setting(0),), (setting(2),)]

    place.run(steps())


def test_an_append_without_a_campaign_is_fenced(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        with pytest.raises(Fenced):
            await append(store, Fence(1), 0)
        assert (await store.load()).entries == ()

    place.run(steps())


def test_a_controllers_epoch_is_above_all_earlier_ones(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        first = await store.campaign()
        await store.append([ControllerStarted(first.epoch)], first)
        await saved_up_to_now(store, first)
        place.crash()
        second = await place.open().campaign()
        assert second.epoch > first.epoch

    place.run(steps())


def test_registrations_get_rising_epochs(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        epochs = [await store.register(registration()) for _ in range(3)]
        await append(store, fence, 0)
        epochs.append(await store.register(registration()))
        await saved_up_to_now(store, fence)
        place.crash()
        epochs.append(await place.open().register(registration()))
        place.crash()
        epochs.append(await place.open().register(registration()))
        assert epochs == sorted(set(epochs))

    place.run(steps())


def test_registered_brokers_are_listed_now_and_after_every_change(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        members = store.registered_brokers()
        assert await anext(members) == ()
        first = registration(1)
        epoch = await store.register(first)
        assert await anext(members) == (RegisteredBroker(first, epoch),)
        assert RegisteredBroker(first, epoch).incarnation == Incarnation(1, epoch)
        waiting = asyncio.ensure_future(anext(members))
        await append(store, await store.campaign(), 0)
        await place.quiet(1)
        assert not waiting.done()
        again = registration(1, inherits=("first",), incarnation_id="second")
        later = await store.register(again)
        present = await waiting
        # A store may show the end of the old registration before the new one.
        if present == ():
            present = await anext(members)
        assert present == (RegisteredBroker(again, later),)

    place.run(steps())


def test_an_entry_that_is_too_large_is_refused_and_nothing_written(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        next_offset = (await store.load()).next_offset
        large = [Config(ResourceKind.BROKER, "", f"k{n}", "x" * 30_000) for n in range(20)]
        with pytest.raises(EntryTooLarge):
            await store.append(large, fence)
        with pytest.raises(InvalidRecord):
            await store.append([partition(leader=Incarnation(9, 9))], fence)
        assert (await store.load()).entries == ()
        assert await append(store, fence, 0) == [next_offset]

    place.run(steps())


def test_committed_entries_survive_a_crash(place: StorePlace) -> None:
    async def steps() -> None:
        committed: list[Record] = []
        for life in range(4):
            store = place.open()
            loaded = await store.load()
            found = [record for entry in loaded.entries for record in entry.records]
            assert found == committed
            fence = await store.campaign()
            for number in range(3):
                record = setting(life * 10 + number)
                await store.append([record], fence)
                committed.append(record)
            place.crash()
        assert len(committed) == 12

    place.run(steps())


def test_a_snapshot_replaces_the_entries_before_it(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        *_, last = await append(store, fence, *range(6))
        snapshot = await saved_up_to_now(store, fence)
        assert snapshot.offset == last
        later = await append(store, fence, 6, 7)
        assert later == [last + 1, last + 2]
        entries = (Entry(last + 1, (setting(6),)), Entry(last + 2, (setting(7),)))
        assert await store.load() == Loaded(snapshot, entries)
        place.crash()
        assert await place.open().load() == Loaded(snapshot, entries)

    place.run(steps())


def test_a_snapshot_keeps_the_entries_after_it(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        await append(store, fence, 0, 1)
        early = Image.of(await store.load())
        await append(store, fence, 2, 3)
        whole = Image.of(await store.load())
        for _ in range(2):
            await store.save(early.snapshot(), fence)
            loaded = await store.load()
            assert loaded.snapshot == early.snapshot()
            assert len(loaded.entries) == 2
            assert Image.of(loaded) == whole
        place.crash()
        assert Image.of(await place.open().load()) == whole

    place.run(steps())


def test_a_snapshot_must_be_of_committed_entries_and_no_older_than_the_last(
    place: StorePlace,
) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        with pytest.raises(ValueError, match="snapshot of entry -1"):
            await store.save(Snapshot(-1, ()), fence)
        await append(store, fence, 0, 1)
        snapshot = await saved_up_to_now(store, fence)
        for n in (snapshot.offset - 1, snapshot.offset + 1):
            with pytest.raises(ValueError, match=f"snapshot of entry {n}"):
                await store.save(Snapshot(n, ()), fence)
        assert (await store.load()).snapshot == snapshot

    place.run(steps())


def test_a_follower_of_replaced_entries_is_told_to_load_again(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        first_offset, *_ = await append(store, fence, 0, 1, 2)
        await saved_up_to_now(store, fence)
        await append(store, fence, 3)
        # A store may keep entries until the snapshot after the next one.
        snapshot = await saved_up_to_now(store, fence)
        with pytest.raises(EntriesGone) as caught:
            await take(store.follow(first_offset), 1)
        assert caught.value.from_offset == first_offset
        assert first_offset < caught.value.first_offset <= snapshot.offset + 1
        follower = store.follow(snapshot.offset + 1)
        await append(store, fence, 4)
        assert await take(follower, 1) == [Entry(snapshot.offset + 1, (setting(4),))]

    place.run(steps())


def test_a_follower_that_keeps_up_does_not_notice_a_snapshot(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        first_offset, *_ = await append(store, fence, 0, 1)
        follower = store.follow(first_offset)
        await take(follower, 2)
        await saved_up_to_now(store, fence)
        waiting = asyncio.create_task(take(follower, 1))
        await append(store, fence, 2)
        assert await waiting == [Entry(first_offset + 2, (setting(2),))]

    place.run(steps())


def test_the_cluster_id_is_kept(place: StorePlace) -> None:
    async def steps() -> None:
        assert await place.open().cluster_id("first") == "first"
        place.crash()
        again = await place.open().cluster_id("first")
        assert again == "first"

    place.run(steps())


def test_a_draining_broker_is_still_registered_under_its_epoch(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        await store.drain()
        brokers = store.registered_brokers()
        assert await anext(brokers) == ()
        epoch = await store.register(registration())
        assert await anext(brokers) == (RegisteredBroker(registration(), epoch),)
        await store.drain()
        draining = replace(registration(), is_draining=True)
        assert await anext(brokers) == (RegisteredBroker(draining, epoch),)
        # The next registration is not draining unless it says so.
        later = await store.register(registration())
        present = await anext(brokers)
        if present == ():
            present = await anext(brokers)
        assert present == (RegisteredBroker(registration(), later),)

    place.run(steps())


def test_a_registration_lasts_as_long_as_its_session(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        await asyncio.wait_for(store.until_unregistered(), WAIT_S)
        await store.register(registration())
        waiting = asyncio.create_task(store.until_unregistered())
        await place.quiet(60)
        assert not waiting.done()
        await store.close()
        with pytest.raises(StoreClosed):
            await waiting

    place.run(steps())


def test_a_closed_store_does_nothing_more(place: StorePlace) -> None:
    async def steps() -> None:
        store = place.open()
        fence = await store.campaign()
        await append(store, fence, 0)
        follower = asyncio.create_task(take(store.follow((await store.load()).next_offset), 1))
        watcher = store.registered_brokers()
        await anext(watcher)
        waiting = asyncio.ensure_future(anext(watcher))
        await asyncio.sleep(0)
        await store.close()
        await store.close()
        for waiter in (follower, waiting):
            with pytest.raises(StoreClosed):
                await waiter
        calls = (
            store.load(),
            store.append([], fence),
            store.save(Snapshot(0, ()), fence),
            store.cluster_id("a"),
            store.register(registration()),
            store.drain(),
            store.until_unregistered(),
            store.campaign(),
            take(store.follow(0), 1),
            anext(store.registered_brokers()),
        )
        for call in calls:
            with pytest.raises(StoreClosed):
                await call
        loaded = await place.open().load()
        assert [entry.records for entry in loaded.entries] == [(setting(0),)]

    place.run(steps())
