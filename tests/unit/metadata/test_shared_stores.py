"""The contract of stores that many brokers share: in memory, and in ZooKeeper."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Protocol

import pytest

from ottla.metadata.image import Image
from ottla.metadata.memory import MemoryEnsemble, MemoryStore
from ottla.metadata.records import Config, Record
from ottla.metadata.store import (
    BrokerIdTaken,
    Entry,
    Fenced,
    MetadataStore,
    RegisteredBroker,
    Registration,
    Snapshot,
    StoreClosed,
)
from ottla.metadata.values import ResourceKind
from ottla.metadata.zookeeper.store import ZooKeeperStore
from tests.sim.ensemble.client import SimZnodes
from tests.sim.ensemble.servers import SimEnsemble
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import ONE_OF_EACH, registration

WAIT_S = 60.0


class Cluster(Protocol):
    """Brokers that share a store."""

    @classmethod
    def run(cls, steps: "Steps") -> None:
        """Runs a test with a new cluster."""
        ...

    async def quiet(self, seconds: float) -> None:
        """Time in which nothing should happen."""
        ...

    def connect(self) -> MetadataStore: ...

    def expire(self, store: MetadataStore) -> None:
        """The servers end a session; the broker finds out later."""
        ...


class Steps(Protocol):
    """The steps of a test."""

    def __call__(self, cluster: Any) -> Coroutine[Any, Any, None]: ...


class InVirtualTime:
    """A wait for something that cannot happen fails at once."""

    @classmethod
    def run(cls, steps: Steps) -> None:
        async def tell() -> None:
            await asyncio.wait_for(steps(cls()), 600)

        run(tell())

    async def quiet(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class InMemory(InVirtualTime):
    def __init__(self) -> None:
        self._ensemble = MemoryEnsemble()

    def connect(self) -> MetadataStore:
        return self._ensemble.connect()

    def expire(self, store: MetadataStore) -> None:
        assert isinstance(store, MemoryStore)
        self._ensemble.expire(store)


class InZooKeeper(InVirtualTime):
    def __init__(self) -> None:
        self._ensemble = SimEnsemble(7)
        self._clients: dict[int, SimZnodes] = {}

    def connect(self) -> MetadataStore:
        client = self._ensemble.client()
        store = ZooKeeperStore(client)
        self._clients[id(store)] = client
        return store

    def expire(self, store: MetadataStore) -> None:
        self._ensemble.expire(self._clients[id(store)])


@pytest.fixture(params=[InMemory, InZooKeeper], ids=["memory", "ZooKeeper"])
def kind(request: pytest.FixtureRequest) -> type[Cluster]:
    made: type[Cluster] = request.param
    return made


def setting(number: int) -> Record:
    return Config(ResourceKind.BROKER, "", f"key-{number}", str(number))


async def soon(call: Any) -> Any:
    return await asyncio.wait_for(call, WAIT_S)


def incarnation(name: str, *replaces: str, broker_id: int = 1) -> Registration:
    return replace(registration(broker_id), incarnation_id=name, replaces=replaces)


def test_a_controller_that_lost_its_session_is_fenced_by_the_next(
    kind: type[Cluster],
) -> None:
    async def steps(cluster: Cluster) -> None:
        first, second = cluster.connect(), cluster.connect()
        old = await first.campaign()
        await first.append([setting(0)], old)
        waiting = asyncio.create_task(second.campaign())
        await cluster.quiet(30)
        assert not waiting.done()
        # A candidate that waits does not void the controller's fence.
        await first.append([setting(1)], old)
        cluster.expire(first)
        new = await soon(waiting)
        assert new.epoch > old.epoch
        with pytest.raises(Fenced):
            await first.append(ONE_OF_EACH, old)
        offset = await second.append(ONE_OF_EACH, new)
        assert await anext(first.follow(offset)) == Entry(offset, ONE_OF_EACH)
        assert [entry.offset for entry in (await first.load()).entries] == [0, 1, offset]

    kind.run(steps)


def test_a_deposed_controller_saves_no_snapshot(kind: type[Cluster]) -> None:
    async def steps(cluster: Cluster) -> None:
        first, second = cluster.connect(), cluster.connect()
        old = await first.campaign()
        for number in range(3):
            await first.append([setting(number)], old)
        early = Image.of(await first.load()).snapshot()
        await first.append([setting(3)], old)
        cluster.expire(first)
        new = await soon(second.campaign())
        with pytest.raises(Fenced):
            await first.save(early, old)
        assert (await second.load()).snapshot == Snapshot(-1, ())
        await second.append([setting(4)], new)
        late = Image.of(await second.load())
        await second.save(late.snapshot(), new)
        # Neither one that is older than the saved one, nor one of the same offset.
        for snapshot in (early, Snapshot(late.offset, ())):
            with pytest.raises(Fenced):
                await first.save(snapshot, old)
        assert (await first.load()).snapshot == late.snapshot()

    kind.run(steps)


def test_one_of_many_candidates_is_the_controller_at_a_time(kind: type[Cluster]) -> None:
    async def steps(cluster: Cluster) -> None:
        stores = [cluster.connect() for _ in range(4)]
        campaigns = {
            asyncio.create_task(store.campaign(), name=str(index)): store
            for index, store in enumerate(stores)
        }
        epochs = []
        while campaigns:
            await asyncio.wait(campaigns, timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
            await cluster.quiet(10)
            (won,) = [campaign for campaign in campaigns if campaign.done()]
            epochs.append(won.result().epoch)
            await campaigns.pop(won).close()
        assert len(epochs) == 4
        assert epochs == sorted(set(epochs))

    kind.run(steps)


def test_the_first_proposal_is_the_cluster_id_of_all(kind: type[Cluster]) -> None:
    async def steps(cluster: Cluster) -> None:
        stores = [cluster.connect() for _ in range(3)]
        ids = await asyncio.gather(*(store.cluster_id(f"id-{n}") for n, store in enumerate(stores)))
        assert len(set(ids)) == 1
        assert ids[0] in ("id-0", "id-1", "id-2")
        assert await cluster.connect().cluster_id("late") == ids[0]

    kind.run(steps)


def test_another_broker_with_the_same_id_is_refused(kind: type[Cluster]) -> None:
    async def steps(cluster: Cluster) -> None:
        first, second = cluster.connect(), cluster.connect()
        await first.register(replace(incarnation("a"), host="rack-7.example"))
        with pytest.raises(BrokerIdTaken, match=r"broker id 1 .*rack-7\.example") as caught:
            await second.register(incarnation("b", "c"))
        assert (caught.value.broker_id, caught.value.host) == (1, "rack-7.example")
        await second.register(incarnation("b", broker_id=2))
        await first.close()
        await soon(second.register(incarnation("b")))

    kind.run(steps)


def test_a_restart_replaces_the_registration_that_a_killed_process_left(
    kind: type[Cluster],
) -> None:
    async def steps(cluster: Cluster) -> None:
        killed, restarted, watching = (cluster.connect() for _ in range(3))
        old = await killed.register(incarnation("a"))
        ended = asyncio.create_task(killed.until_unregistered())
        new = await restarted.register(incarnation("b", "a"))
        assert new > old
        brokers = watching.registered_brokers()
        assert await anext(brokers) == (RegisteredBroker(incarnation("b", "a"), new),)
        await soon(ended)
        # The end of the old session does not end the new registration.
        cluster.expire(killed)
        kept = asyncio.create_task(restarted.until_unregistered())
        await cluster.quiet(30)
        assert not kept.done()
        await killed.drain()
        assert await anext(watching.registered_brokers()) == (
            RegisteredBroker(incarnation("b", "a"), new),
        )

    kind.run(steps)


def test_a_restart_of_a_killed_controller_waits_for_no_session(kind: type[Cluster]) -> None:
    async def steps(cluster: Cluster) -> None:
        killed, restarted, other = (cluster.connect() for _ in range(3))
        await killed.register(incarnation("a"))
        await other.register(incarnation("other", broker_id=2))
        old = await killed.campaign()
        # A broker that registers again in its own session stays the controller.
        await killed.register(incarnation("a"))
        campaign = asyncio.create_task(other.campaign())
        await cluster.quiet(1)
        assert not campaign.done()
        await restarted.register(incarnation("b", "a"))
        new = await soon(campaign)
        assert new.epoch > old.epoch
        with pytest.raises(Fenced):
            await killed.append([setting(0)], old)
        # The controller is not deposed when another broker restarts.
        await killed.close()
        await cluster.connect().register(incarnation("c", "b"))
        await other.append([setting(1)], new)

    kind.run(steps)


def test_a_broker_whose_session_expired_learns_it_and_registers_again(
    kind: type[Cluster],
) -> None:
    async def steps(cluster: Cluster) -> None:
        store, watching = cluster.connect(), cluster.connect()
        brokers = watching.registered_brokers()
        assert await anext(brokers) == ()
        epoch = await store.register(incarnation("a"))
        assert await soon(anext(brokers)) == (RegisteredBroker(incarnation("a"), epoch),)
        ended = asyncio.create_task(store.until_unregistered())
        await cluster.quiet(30)
        assert not ended.done()
        cluster.expire(store)
        await soon(ended)
        assert await soon(anext(brokers)) == ()
        again = await soon(store.register(incarnation("b", "a")))
        assert again > epoch
        present = await soon(anext(brokers))
        assert present == (RegisteredBroker(incarnation("b", "a"), again),)

    kind.run(steps)


def test_the_controller_sees_that_a_broker_is_draining(kind: type[Cluster]) -> None:
    async def steps(cluster: Cluster) -> None:
        controller, leaving, other = (cluster.connect() for _ in range(3))
        epoch = await leaving.register(incarnation("a"))
        stays = await other.register(incarnation("x", broker_id=2))
        brokers = controller.registered_brokers()
        assert [each.registration.is_draining for each in await anext(brokers)] == [False, False]
        await leaving.drain()
        draining = replace(incarnation("a"), is_draining=True)
        assert await soon(anext(brokers)) == (
            RegisteredBroker(draining, epoch),
            RegisteredBroker(incarnation("x", broker_id=2), stays),
        )
        await leaving.close()
        assert [each.broker_epoch for each in await soon(anext(brokers))] == [stays]

    kind.run(steps)


def test_every_broker_follows_the_same_entries(kind: type[Cluster]) -> None:
    async def steps(cluster: Cluster) -> None:
        controller = cluster.connect()
        fence = await controller.campaign()

        async def followed() -> list[Entry]:
            entries = []
            async for entry in cluster.connect().follow(0):
                entries.append(entry)
                if len(entries) == 50:
                    break
            return entries

        followers = [asyncio.create_task(followed()) for _ in range(3)]
        for number in range(50):
            await controller.append([setting(number)], fence)
        found = await asyncio.gather(*followers)
        assert found == [[Entry(number, (setting(number),)) for number in range(50)]] * 3

    kind.run(steps)


def test_a_campaign_ends_with_its_store(kind: type[Cluster]) -> None:
    async def steps(cluster: Cluster) -> None:
        first, second = cluster.connect(), cluster.connect()
        await first.campaign()
        waiting = asyncio.create_task(second.campaign())
        await cluster.quiet(5)
        await second.close()
        with pytest.raises(StoreClosed):
            await soon(waiting)

    kind.run(steps)
