"""The image has all committed entries, and only records that it can apply are committed."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Never

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.decision_queue import DecisionQueue
from ottla.metadata.entry_codec import ENTRY_BYTES_MAX, EntryTooLarge, encode
from ottla.metadata.image import Image, RuleBroken
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.publisher import MIN_REPLAYED_PER_SNAPSHOT, Publisher
from ottla.metadata.records import (
    Acl,
    Config,
    EpochFloor,
    Feature,
    InvalidRecord,
    ProducerIds,
    Quota,
    Record,
    Topic,
    TopicDeleted,
    User,
)
from ottla.metadata.store import Entry
from ottla.metadata.values import Incarnation, PartitionId, ResourceKind, ScramMechanism
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import (
    BINDING,
    ENTITY,
    ONE_OF_EACH,
    broker,
    partition,
    topic_id,
)
from tests.support.metadata.store_kinds import ThreadedMachine

ORDERS = (Topic("orders", topic_id(1)), partition())


def setting(number: int) -> Record:
    return Config(ResourceKind.BROKER, "", "key", str(number))


def deciding(*records: Record) -> Callable[[Image], tuple[Sequence[Record], None]]:
    return lambda _: (records, None)


async def leading(ensemble: MemoryEnsemble) -> tuple[Publisher, asyncio.Task[None]]:
    """A controller that follows its own commits."""
    publisher = Publisher(ensemble.connect())
    await publisher.load()
    following = asyncio.create_task(publisher.follow())
    await publisher.lead(1)
    return publisher, following


def story(steps: Callable[[MemoryEnsemble], Coroutine[Any, Any, None]]) -> None:
    async def tell() -> None:
        await steps(MemoryEnsemble())
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    run(tell())


def test_a_decision_waits_for_the_previous_one_even_if_its_caller_was_cancelled() -> None:
    """Else both would be decided on the same image, and could not both be applied."""

    async def steps() -> None:
        machine = ThreadedMachine()
        store = machine.open()
        publisher = Publisher(store)
        await publisher.load()
        following = asyncio.create_task(publisher.follow())
        await publisher.lead(1)

        def create(image: Image) -> tuple[Sequence[Record], bool]:
            if image.topic("orders") is not None:
                return (), False
            return ORDERS, True

        first = asyncio.create_task(publisher.commit(create))
        await asyncio.sleep(0)
        others = [asyncio.create_task(publisher.commit(create)) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
        others[1].cancel()
        created = await asyncio.gather(*others, return_exceptions=True)
        assert [created[0], created[2]] == [False, False]
        assert publisher.image.topic("orders") is not None
        # Cancelled after its entry was written and before it was applied.
        late = asyncio.create_task(publisher.commit(deciding(setting(1))))
        while publisher.image.configs(ResourceKind.BROKER, "") == {} and not late.done():
            await asyncio.sleep(0.0001)
            late.cancel()
        await publisher.commit(deciding(setting(2)))
        assert publisher.image.configs(ResourceKind.BROKER, "") == {"key": "2"}
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await store.close()
        assert Image.of(await machine.open().load()) == publisher.image

    run(steps())


def test_waiting_commits_are_cancelled_when_follow_ends() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        publisher, following = await leading(ensemble)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        with pytest.raises(asyncio.CancelledError):
            await publisher.commit(deciding(setting(1)))

    story(steps)


@pytest.mark.parametrize(
    ("records", "fault"),
    [
        ((partition(topic=9),), "unknown id"),
        ((Topic("new", topic_id(2)), Topic("new", topic_id(3))), "already"),
        ((partition(partition_epoch=5),), "cannot follow"),
        ((setting(1), TopicDeleted(topic_id(1), "orders")), "first epoch of its name"),
        ((Config(ResourceKind.TOPIC, "nobody", "retention.ms", "1"),), "not there"),
    ],
)
def test_a_decision_that_breaks_a_rule_is_not_written(
    records: tuple[Record, ...], fault: str
) -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        publisher, _ = await leading(ensemble)
        await publisher.commit(deciding(*ORDERS))
        before = ensemble.entries

        with pytest.raises(RuleBroken, match=fault):
            await publisher.commit(deciding(*records))

        assert ensemble.entries == before
        await publisher.commit(deciding(setting(2)))
        assert publisher.image == Image.of(await ensemble.connect().load())

    story(steps)


def test_a_record_that_contradicts_itself_is_not_written() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        publisher, _ = await leading(ensemble)
        before = ensemble.entries
        with pytest.raises(InvalidRecord):
            await publisher.commit(deciding(*ORDERS[:1], partition(replicas=())))
        assert ensemble.entries == before

    story(steps)


def test_decisions_that_wait_together_share_an_entry() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        publisher, _ = await leading(ensemble)
        before = len(ensemble.entries)
        seen: list[int] = []

        def raising(image: Image) -> tuple[Sequence[Record], int]:
            seen.append(image.next_producer_id)
            return [ProducerIds(image.next_producer_id + 10)], image.next_producer_id

        first = asyncio.create_task(publisher.commit(raising))
        await asyncio.sleep(0)
        others = [asyncio.create_task(publisher.commit(raising)) for _ in range(5)]
        assert await asyncio.gather(first, *others) == [0, 10, 20, 30, 40, 50]
        assert len(ensemble.entries) <= before + 2
        assert publisher.image.next_producer_id == 60

    story(steps)


def test_a_decision_that_fails_in_a_group_fails_alone() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        publisher, _ = await leading(ensemble)

        def refusing(_: Image) -> tuple[Sequence[Record], None]:
            raise PeerError(ErrorCode.INVALID_REQUEST, "refused")

        outcomes = await asyncio.gather(
            publisher.commit(deciding(*ORDERS)),
            publisher.commit(refusing),
            # The first record can be applied and the second one cannot.
            publisher.commit(deciding(ProducerIds(5), partition(partition_epoch=7))),
            publisher.commit(lambda image: ((), image.next_producer_id)),
            publisher.commit(deciding(setting(1))),
            return_exceptions=True,
        )
        kinds = [type(each) for each in outcomes]
        assert kinds == [type(None), PeerError, RuleBroken, int, type(None)]
        assert outcomes[3] == 0
        assert publisher.image.next_producer_id == 0
        assert publisher.image == Image.of(await ensemble.connect().load())

    story(steps)


LOGS = tuple(PartitionId(topic_id(number), 0) for number in range(20_000))


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        (Config(ResourceKind.BROKER, "", "key", "x" * 40_000), InvalidRecord),
        (broker(damaged=LOGS), EntryTooLarge),
    ],
    ids=["a value that cannot be encoded", "a record larger than an entry"],
)
def test_a_record_that_no_entry_can_hold_stops_no_later_decision(
    record: Record, fault: type[Exception]
) -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        publisher, _ = await leading(ensemble)
        async with asyncio.timeout(60):
            with pytest.raises(fault):
                await publisher.commit(deciding(record))
            outcomes = await asyncio.gather(
                publisher.commit(deciding(setting(1))),
                publisher.commit(deciding(record)),
                publisher.commit(deciding(setting(2))),
                return_exceptions=True,
            )
        assert [type(each) for each in outcomes] == [type(None), fault, type(None)]
        assert publisher.image == Image.of(await ensemble.connect().load())

    story(steps)


def test_a_bug_in_the_queue_reaches_all_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_entry(_: DecisionQueue, __: Image) -> Never:
        raise ZeroDivisionError

    async def steps(ensemble: MemoryEnsemble) -> None:
        publisher, _ = await leading(ensemble)
        monkeypatch.setattr(DecisionQueue, "next_entry", next_entry)
        commits = (publisher.commit(deciding(setting(number))) for number in range(2))
        async with asyncio.timeout(60):
            outcomes = await asyncio.gather(*commits, return_exceptions=True)
        assert [type(each) for each in outcomes] == [ZeroDivisionError] * 2

    story(steps)


def test_no_entry_of_a_group_is_larger_than_an_entry_may_be() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        publisher, _ = await leading(ensemble)
        before = len(ensemble.entries)
        large = [Config(ResourceKind.BROKER, "", f"k{n}", "x" * 30_000) for n in range(10)]
        await asyncio.gather(*(publisher.commit(deciding(*large)) for _ in range(6)))
        assert before + 6 >= len(ensemble.entries) > before + 3
        assert all(len(encode(entry.records)) <= ENTRY_BYTES_MAX for entry in ensemble.entries)

    story(steps)


def test_a_caller_that_is_cancelled_while_it_waits_decides_nothing() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        publisher, _ = await leading(ensemble)
        first = asyncio.create_task(publisher.commit(deciding(setting(1))))
        second = asyncio.create_task(publisher.commit(deciding(ProducerIds(7))))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        await publisher.commit(deciding(setting(2)))
        assert publisher.image.next_producer_id == 0

    story(steps)


def test_a_broker_that_fell_behind_a_snapshot_continues_from_it() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        controller, _ = await leading(ensemble)
        await controller.commit(deciding(*ORDERS, Topic("old", topic_id(2)), partition(topic=2)))
        late = Publisher(ensemble.connect())
        await late.load()
        told: list[Entry] = []
        late.subscribe(lambda image, entry: told.append(entry))
        await controller.commit(
            deciding(EpochFloor(1), TopicDeleted(topic_id(2), "old"), Topic("old", topic_id(3)))
        )
        await controller.commit(deciding(partition(partition_epoch=1, isr=(Incarnation(1, 5),))))
        for number in range(MIN_REPLAYED_PER_SNAPSHOT):
            await controller.commit(deciding(setting(number)))
        assert ensemble.snapshot_offset > late.image.offset

        following = asyncio.create_task(late.follow())
        await asyncio.sleep(1)
        await controller.commit(deciding(setting(-1)))
        await asyncio.sleep(1)

        assert not following.done()
        assert late.image == controller.image
        assert late.image.offset == controller.image.offset
        jump = told[0].records
        assert jump[0] == TopicDeleted(topic_id(2), "old")
        assert Topic("old", topic_id(3)) in jump
        assert partition(partition_epoch=1, isr=(Incarnation(1, 5),)) in jump
        assert ORDERS[0] not in jump
        assert told[-1].records == (setting(-1),)

    story(steps)


def test_the_delta_of_a_jump_has_all_removals() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        controller, _ = await leading(ensemble)
        topic_setting = Config(ResourceKind.TOPIC, "orders", "retention.ms", "1000")
        await controller.commit(
            deciding(*ORDERS, topic_setting, *ONE_OF_EACH[5:8], Feature("f", 2))
        )
        late = Publisher(ensemble.connect())
        await late.load()
        gone: list[Record] = [
            Config(ResourceKind.TOPIC, "orders", "retention.ms", None),
            Feature("f", None),
            Acl(BINDING, in_force=False),
            User("alice", ScramMechanism.SHA_512, None),
            Quota(ENTITY, "producer_byte_rate", None),
        ]
        await controller.commit(deciding(*gone))
        for number in range(MIN_REPLAYED_PER_SNAPSHOT):
            await controller.commit(deciding(setting(number)))
        told: list[Entry] = []
        late.subscribe(lambda image, entry: told.append(entry))

        following = asyncio.create_task(late.follow())
        await asyncio.sleep(1)

        assert not following.done()
        assert told[0].records[: len(gone)] == tuple(gone)

    story(steps)


def test_many_records_in_few_entries_are_replaced_by_a_snapshot_too() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        controller, _ = await leading(ensemble)
        for life in range(8):
            await controller.commit(
                deciding(*(setting(life * 1000 + number) for number in range(500)))
            )
        assert ensemble.snapshot_offset >= 0
        replayed = sum(
            1 + len(entry.records) for entry in (await ensemble.connect().load()).entries
        )
        assert replayed < MIN_REPLAYED_PER_SNAPSHOT

    story(steps)


def test_a_large_image_is_not_saved_again_for_every_few_records() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        controller, _ = await leading(ensemble)
        many = [Config(ResourceKind.BROKER, "", f"key-{n}", "1") for n in range(4_000)]
        for first in range(0, len(many), 500):
            await controller.commit(deciding(*many[first : first + 500]))
        await asyncio.sleep(1)
        saved = ensemble.snapshot_offset
        size = len((await ensemble.connect().load()).snapshot.records)
        assert size > MIN_REPLAYED_PER_SNAPSHOT
        for number in range(MIN_REPLAYED_PER_SNAPSHOT // 2):
            await controller.commit(deciding(setting(number)))
        assert ensemble.snapshot_offset == saved

    story(steps)
