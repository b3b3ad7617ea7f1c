"""The store in ZooKeeper while connections break, servers lag, and controllers are deposed."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import StorageError
from ottla.metadata.image import Image
from ottla.metadata.records import Config, Record
from ottla.metadata.store import BrokerIdTaken, EntriesGone, Entry, Fenced, Loaded, Snapshot
from ottla.metadata.values import ResourceKind
from ottla.metadata.zookeeper import entries, snapshots
from ottla.metadata.zookeeper.layout import HEAD, LOG, SNAPSHOT
from ottla.metadata.zookeeper.store import ZooKeeperStore
from ottla.metadata.zookeeper.znodes import Delete, SetData, fresh
from tests.sim.ensemble.client import LostWrite, SimZnodes
from tests.sim.ensemble.servers import SimEnsemble
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import registration

LOST = pytest.mark.parametrize("lost", list(LostWrite))


class Broker:
    """A store and its client, whose connection the test can break."""

    def __init__(self, ensemble: SimEnsemble) -> None:
        self.client: SimZnodes = ensemble.client()
        self.store = ZooKeeperStore(self.client)

    async def nodes(self) -> tuple[str, ...]:
        return await fresh(self.client, lambda: self.client.children(LOG))


def story(steps: Callable[[SimEnsemble], Coroutine[Any, Any, None]], seed: int = 5) -> None:
    async def tell() -> None:
        await asyncio.wait_for(steps(SimEnsemble(seed)), 3_600)

    run(tell())


def setting(number: int) -> Record:
    return Config(ResourceKind.BROKER, "", f"key-{number}", str(number))


async def numbers(store: ZooKeeperStore) -> list[Record]:
    return [record for entry in (await store.load()).entries for record in entry.records]


@LOST
def test_an_append_whose_outcome_is_unknown_is_committed_once(lost: LostWrite) -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        broker = Broker(ensemble)
        fence = await broker.store.campaign()
        for number in range(5):
            broker.client.lose_next_write = lost
            assert await broker.store.append([setting(number)], fence) == number
        assert await numbers(broker.store) == [setting(number) for number in range(5)]

    story(steps)


@LOST
def test_equal_records_are_appended_as_often_as_asked(lost: LostWrite) -> None:
    """An entry that a lost append finds in its place is not taken for an earlier, equal one."""

    async def steps(ensemble: SimEnsemble) -> None:
        broker = Broker(ensemble)
        fence = await broker.store.campaign()
        for number in range(6):
            broker.client.lose_next_write = lost if number % 2 else None
            assert await broker.store.append([setting(0)], fence) == number
        assert await numbers(broker.store) == [setting(0)] * 6

    story(steps)


async def cut_off_during_an_append(lost: LostWrite, first: Broker) -> "asyncio.Task[int]":
    """An append of a controller has an unknown outcome, and the controller cannot look for it
    before its link is healed."""
    fence = await first.store.campaign()
    await first.store.append([setting(0)], fence)
    first.client.lose_next_write = lost
    appending = asyncio.create_task(first.store.append([setting(1)], fence))
    await asyncio.sleep(0)
    while first.client.lose_next_write is not None:
        await asyncio.sleep(0.0001)
    first.client.link.cut(to_servers=False)
    await asyncio.sleep(0.1)
    first.client.link.cut()
    return appending


def test_a_lost_append_that_a_later_controller_found_is_committed() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        first, second = Broker(ensemble), Broker(ensemble)
        appending = await cut_off_during_an_append(LostWrite.UNANSWERED, first)
        # The same records as the lost ones: entries of different controllers are not confused.
        fence = await second.store.campaign()
        assert await second.store.append([setting(1)], fence) == 2
        first.client.link.heal()
        assert await asyncio.wait_for(appending, 60) == 1
        assert await numbers(first.store) == [setting(0), setting(1), setting(1)]

    story(steps)


def test_a_lost_append_whose_place_a_later_controller_took_is_fenced() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        first, second = Broker(ensemble), Broker(ensemble)
        appending = await cut_off_during_an_append(LostWrite.UNSENT, first)
        fence = await second.store.campaign()
        # The same records: without the epoch in the entry it would be taken for the lost one.
        assert await second.store.append([setting(1)], fence) == 1
        first.client.link.heal()
        with pytest.raises(Fenced):
            await asyncio.wait_for(appending, 60)
        assert await numbers(first.store) == [setting(0), setting(1)]

    story(steps)


def test_a_lost_append_that_a_later_snapshot_replaced_is_fenced() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        first, second = Broker(ensemble), Broker(ensemble)
        appending = await cut_off_during_an_append(LostWrite.UNANSWERED, first)
        fence = await second.store.campaign()
        # The second snapshot deletes the entries that the first one replaced.
        for _ in range(2):
            await second.store.save(Image.of(await second.store.load()).snapshot(), fence)
        first.client.link.heal()
        with pytest.raises(Fenced):
            await asyncio.wait_for(appending, 60)

    story(steps)


def test_a_lost_append_that_a_snapshot_of_its_own_term_replaced_is_committed() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        broker = Broker(ensemble)
        fence = await broker.store.campaign()
        await broker.store.append([setting(0)], fence)
        broker.client.lose_next_write = LostWrite.UNANSWERED
        find = entries._is_committed

        async def save_first(*args: Any) -> bool:
            # Its own follower has seen the entry before the append has its answer.
            image = Image.of(await entries.load(broker.client))
            for _ in range(2):
                await broker.store.save(image.snapshot(), fence)
            return await find(*args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(entries, "_is_committed", save_first)
            assert await broker.store.append([setting(1)], fence) == 1
        assert "e1" not in await broker.nodes()
        assert await broker.store.append([setting(2)], fence) == 2
        assert (await broker.store.load()).snapshot.offset == 1

    story(steps)


def test_a_cancelled_append_does_not_disturb_the_next() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        broker = Broker(ensemble)
        fence = await broker.store.campaign()
        for delay_s in (0, 0.001, 0.003, 0.01):
            appending = asyncio.create_task(broker.store.append([setting(1)], fence))
            await asyncio.sleep(delay_s)
            appending.cancel()
        assert await broker.store.append([setting(2)], fence) == 4
        assert len(await numbers(broker.store)) == 5

    story(steps)


@LOST
def test_an_election_whose_outcome_is_unknown_gives_one_fence(lost: LostWrite) -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        broker = Broker(ensemble)
        await broker.store.load()
        epochs = []
        for _ in range(4):
            broker.client.lose_next_write = lost
            fence = await broker.store.campaign()
            await broker.store.append([setting(fence.epoch)], fence)
            epochs.append(fence.epoch)
        assert epochs == [1, 2, 3, 4]

    story(steps)


@LOST
def test_a_registration_whose_outcome_is_unknown_is_made_once(lost: LostWrite) -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        broker = Broker(ensemble)
        await broker.store.load()
        epochs = []
        for number in range(4):
            mine = replace(registration(), incarnation_id=f"life {number}")
            broker.client.lose_next_write = lost
            epochs.append(await broker.store.register(mine))
            (found,) = await anext(broker.store.registered_brokers())
            assert (found.registration, found.broker_epoch) == (mine, epochs[-1])
        assert epochs == sorted(set(epochs))
        broker.client.lose_next_write = lost
        await broker.store.drain()
        (found,) = await anext(broker.store.registered_brokers())
        assert found.registration.is_draining
        assert found.broker_epoch == epochs[-1]

    story(steps)


@LOST
def test_a_cluster_id_whose_outcome_is_unknown_is_still_the_first(lost: LostWrite) -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        broker = Broker(ensemble)
        await broker.store.load()
        broker.client.lose_next_write = lost
        assert await broker.store.cluster_id("first") == "first"
        assert await Broker(ensemble).store.cluster_id("second") == "first"

    story(steps)


def test_a_snapshot_survives_the_loss_of_any_of_its_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "DELETED_PER_MULTI", 2)

    async def steps(ensemble: SimEnsemble) -> None:
        broker = Broker(ensemble)
        fence = await broker.store.campaign()
        for round_number in range(30):
            for number in range(5):
                await broker.store.append([setting(number), setting(round_number)], fence)
            image = Image.of(await broker.store.load())
            broker.client.lost_writes = 0.5
            await broker.store.save(image.snapshot(), fence)
            broker.client.lost_writes = 0.0
            assert await broker.store.load() == Loaded(image.snapshot(), ())
            kept = {f"e{offset}" for offset in range(image.offset - 4, image.offset + 1)}
            assert set(await broker.nodes()) == {
                *kept,
                "head",
                f"s{image.offset}-0",
                "snapshot",
            }

    story(steps)


def test_a_snapshot_of_many_chunks_is_loaded_whole_while_newer_ones_replace_it() -> None:
    large = [Config(ResourceKind.BROKER, "", f"k{n}", "x" * 30_000) for n in range(40)]

    async def steps(ensemble: SimEnsemble) -> None:
        writer, reader = Broker(ensemble), Broker(ensemble)
        fence = await writer.store.campaign()
        for record in large:
            await writer.store.append([record], fence)
        saved = 0

        async def save_again_and_again() -> None:
            nonlocal saved
            while True:
                await writer.store.append([setting(saved)], fence)
                await writer.store.save(Image.of(await writer.store.load()).snapshot(), fence)
                saved += 1

        saving = asyncio.create_task(save_again_and_again())
        offsets = []
        for _ in range(30):
            loaded = await reader.store.load()
            assert set(large) <= set(Image.of(loaded).snapshot().records)
            offsets.append(loaded.next_offset)
        saving.cancel()
        assert saved > 3
        assert offsets == sorted(offsets)

    story(steps)


def test_chunks_that_a_crash_left_are_replaced() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        first, second = Broker(ensemble), Broker(ensemble)
        old = await first.store.campaign()
        await first.store.append([setting(0)], old)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(snapshots, "write_pointer", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await first.store.save(Snapshot(0, (setting(7), setting(8))), old)
        assert "s0-0" in await second.nodes()
        await first.store.close()
        fence = await second.store.campaign()
        image = Image.of(await second.store.load())
        await second.store.save(image.snapshot(), fence)
        assert await first_load(ensemble) == Loaded(image.snapshot(), ())

    async def first_load(ensemble: SimEnsemble) -> Loaded:
        return await Broker(ensemble).store.load()

    story(steps)


def test_a_load_sees_all_that_was_committed_before_it() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        writer = Broker(ensemble)
        fence = await writer.store.campaign()
        for server in ensemble.servers:
            server.lag_us_max = 5_000_000
        for number in range(10):
            offset = await writer.store.append([setting(number)], fence)
            assert (await Broker(ensemble).store.load()).next_offset == offset + 1

    story(steps)


def test_a_follower_goes_on_after_every_kind_of_interruption() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        writer, reader = Broker(ensemble), Broker(ensemble)
        fence = await writer.store.campaign()
        follower = reader.store.follow(0)
        interruptions: list[Callable[[], None]] = [
            lambda: None,
            reader.client.drop_connection,
            lambda: ensemble.expire(reader.client),
            lambda: ensemble.change_leader(0.5),
            reader.client.link.cut,
        ]
        for number in range(20):
            interruptions[number % 5]()
            await writer.store.append([setting(number)], fence)
            if number % 5 == 4:
                await asyncio.sleep(ensemble.session_timeout_s * (number % 3))
                reader.client.link.heal()
            found = await asyncio.wait_for(anext(follower), 60)
            assert found == Entry(number, (setting(number),))
        assert reader.client.session_expiries > 3

    story(steps)


def test_a_follower_that_was_away_for_long_must_load_again() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        writer, reader = Broker(ensemble), Broker(ensemble)
        fence = await writer.store.campaign()
        follower = reader.store.follow(0)
        await writer.store.append([setting(0)], fence)
        assert (await anext(follower)).offset == 0
        reader.client.link.cut()
        await writer.store.append([setting(1)], fence)
        await writer.store.append([setting(2)], fence)
        for _ in range(2):
            await writer.store.save(Image.of(await writer.store.load()).snapshot(), fence)
        await writer.store.append([setting(3)], fence)
        reader.client.link.heal()
        with pytest.raises(EntriesGone) as caught:
            await asyncio.wait_for(anext(follower), 60)
        assert (caught.value.from_offset, caught.value.first_offset) == (1, 3)

    story(steps)


def test_a_follower_that_is_a_little_behind_a_snapshot_continues() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        writer, reader = Broker(ensemble), Broker(ensemble)
        fence = await writer.store.campaign()
        follower = reader.store.follow(0)
        await writer.store.append([setting(0)], fence)
        assert (await anext(follower)).offset == 0
        reader.client.link.cut()
        await writer.store.append([setting(1)], fence)
        await writer.store.save(Image.of(await writer.store.load()).snapshot(), fence)
        reader.client.link.heal()
        found = await asyncio.wait_for(anext(follower), 60)
        assert (found.offset, found.records) == (1, (setting(1),))

    story(steps)


def test_a_broker_that_was_cut_off_registers_again_with_its_own_id() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        broker, other = Broker(ensemble), Broker(ensemble)
        mine = replace(registration(), incarnation_id="a")
        epoch = await broker.store.register(mine)
        ended = asyncio.create_task(broker.store.until_unregistered())
        with pytest.raises(BrokerIdTaken):
            await other.store.register(replace(mine, incarnation_id="b"))
        broker.client.link.cut()
        await asyncio.sleep(3 * ensemble.session_timeout_s)
        # It cannot know yet.
        assert not ended.done()
        assert await anext(other.store.registered_brokers()) == ()
        broker.client.link.heal()
        await asyncio.wait_for(ended, 60)
        assert await broker.store.register(mine) > epoch

    story(steps)


def test_missing_nodes_are_an_error_and_not_an_endless_wait() -> None:
    async def steps(ensemble: SimEnsemble) -> None:
        broker = Broker(ensemble)
        fence = await broker.store.campaign()
        for number in range(3):
            await broker.store.append([setting(number)], fence)
        await broker.client.multi([Delete(f"{LOG}/e1", -1)])
        with pytest.raises(StorageError, match="missing"):
            await broker.store.load()
        follower = broker.store.follow(1)
        with pytest.raises(StorageError, match="e1: it is missing"):
            await anext(follower)
        await broker.client.multi([SetData(SNAPSHOT, b"{}", -1), SetData(HEAD, b"one", -1)])
        with pytest.raises(StorageError, match="/log/snapshot"):
            await broker.store.load()

    story(steps)
