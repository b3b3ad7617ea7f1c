"""The election of the controller, its duties, and its resignation."""

import asyncio
import errno
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.broker_changes import partition_updates
from ottla.metadata.controller.broker_registrations import is_up, membership_records
from ottla.metadata.controller.entry_packing import MAX_RECORDS_PER_ENTRY
from ottla.metadata.controller.topic_changes import assignment_fault
from ottla.metadata.controller_duties import UPDATED_PER_ENTRY
from ottla.metadata.image import Image
from ottla.metadata.incarnation import DAMAGED_MAX
from ottla.metadata.memory import MemoryEnsemble, MemoryStore
from ottla.metadata.publisher import MIN_REPLAYED_PER_SNAPSHOT, Publisher
from ottla.metadata.records import Broker, Config, ControllerStarted, Partition, Record, Topic
from ottla.metadata.store import Entry, Fence, RegisteredBroker
from ottla.metadata.values import BrokerState, Incarnation, PartitionId, ResourceKind
from ottla.settings.sources import load
from tests.support.metadata.controller_peers import Peer, deciding, settle, story
from tests.support.metadata.sample_records import broker, partition, registration, topic_id


def setting(number: int) -> Record:
    return Config(ResourceKind.BROKER, "", "key", str(number))


async def two_brokers(ensemble: MemoryEnsemble) -> tuple[Peer, Peer]:
    """The first one is the controller."""
    first, second = Peer(ensemble, 1), Peer(ensemble, 2)
    await first.run()
    await settle()
    await second.run()
    await settle()
    return first, second


def test_the_controller_is_known_to_every_broker_and_only_it_commits() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, second = await two_brokers(ensemble)

        assert (first.publisher.is_controller, second.publisher.is_controller) == (True, False)
        assert first.image.controller_id == second.image.controller_id == 1
        await first.controller.commit(deciding(setting(1)))
        entries = ensemble.entries
        assert await second.refusal(setting(2)) is ErrorCode.NOT_CONTROLLER
        assert ensemble.entries == entries

    story(steps)


def test_a_controller_that_lost_its_session_is_succeeded_and_campaigns_again() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, second = await two_brokers(ensemble)
        ensemble.expire(first.store)
        await settle()

        # It has applied the entry of its successor, without a commit of its own.
        assert (first.publisher.is_controller, second.publisher.is_controller) == (False, True)
        assert first.image.controller_id == second.image.controller_id == 2
        assert await first.refusal(setting(1)) is ErrorCode.NOT_CONTROLLER
        await second.controller.commit(deciding(setting(2)))

        ensemble.expire(second.store)
        await settle()
        assert first.publisher.is_controller
        assert first.image.controller_id == 1
        assert (first.terms, second.terms) == ([1, 3], [2])
        await first.controller.commit(deciding(setting(3)))
        first.check()

    story(steps)


def test_the_commit_of_a_deposed_controller_is_refused() -> None:
    """It decides before it has applied the entry of its successor."""

    async def steps(ensemble: MemoryEnsemble) -> None:
        first, second = await two_brokers(ensemble)
        commits = [
            asyncio.create_task(first.controller.commit(deciding(setting(number))))
            for number in range(3)
        ]
        ensemble.expire(first.store)
        successor = ensemble.connect()
        await successor.campaign()
        entries = ensemble.entries
        outcomes = await asyncio.gather(*commits, return_exceptions=True)

        codes = [outcome.code for outcome in outcomes if isinstance(outcome, PeerError)]
        assert codes == [ErrorCode.NOT_CONTROLLER] * 3
        assert ensemble.entries == entries
        assert not first.publisher.is_controller
        # The holder of the newest fence is gone: the next campaign wins.
        await successor.close()
        await settle()
        assert first.publisher.is_controller or second.publisher.is_controller
        first.check()
        second.check()

    story(steps)


class LateStore(MemoryStore):
    """Entries reach this broker only while the test allows it."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        super().__init__(ensemble)
        self.hears = asyncio.Event()
        self.hears.set()

    async def follow(self, from_offset: int) -> Any:
        async for entry in super().follow(from_offset):
            await self.hears.wait()
            yield entry


def test_a_new_controller_decides_only_after_it_has_applied_all_earlier_entries() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, second = Peer(ensemble, 1), Peer(ensemble, 2)
        late = LateStore(ensemble)
        second.store = late
        second.publisher = Publisher(late)
        await first.follow()
        await first.publisher.lead(1)
        await second.follow()
        await settle()
        late.hears.clear()
        await first.publisher.commit(deciding(Topic("orders", topic_id(1))))
        ensemble.expire(first.store)

        def create(image: Image) -> tuple[Sequence[Record], bool]:
            exists = image.topic("orders") is not None
            return (() if exists else (Topic("orders", topic_id(2)),)), not exists

        leading = asyncio.create_task(second.publisher.lead(2))
        await settle()
        creating = asyncio.create_task(second.publisher.commit(create))
        await settle()
        assert not leading.done()
        late.hears.set()
        await leading
        # Refused, or decided on the newest image, never on the old one.
        outcome = (await asyncio.gather(creating, return_exceptions=True))[0]
        assert outcome is False or isinstance(outcome, PeerError)
        assert await second.publisher.commit(create) is False

    story(steps)


def test_a_deposed_controller_that_saves_a_snapshot_continues_to_follow() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first = Peer(ensemble, 1)
        await first.run()
        await settle()
        for number in range(MIN_REPLAYED_PER_SNAPSHOT // 2 - 3):
            await first.controller.commit(deciding(setting(number)))
        # The next entry makes a snapshot due. It is from another controller, whose
        # ControllerStarted is not written yet.
        ensemble.expire(first.store)
        other = ensemble.connect()
        fence = await other.campaign()
        for number in range(5):
            await other.append([setting(number)], fence)
        await settle()
        first.check()
        assert ensemble.snapshot_offset == -1
        assert first.image.offset == len(ensemble.entries) - 1

    story(steps)


def test_a_disk_that_cannot_be_written_is_a_storage_error() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first = Peer(ensemble, 1)
        await first.run()
        await settle()

        async def full(records: Sequence[Record], fence: Fence) -> int:
            raise OSError(errno.ENOSPC, "no room")

        setattr(first.store, "append", full)  # noqa: B010 - one method of one store
        assert await first.refusal(setting(1)) is ErrorCode.KAFKA_STORAGE_ERROR
        first.check()

    story(steps)


# --- a controller's duties --------------------------------------------------------------------


def many(count: int, old: Incarnation) -> list[Record]:
    return [
        partition(index=index, replicas=(old.broker_id,), leader=old, isr=(old,), min_isr=2)
        for index in range(count)
    ]


async def with_partitions(ensemble: MemoryEnsemble, count: int) -> None:
    """A log in which the previous incarnation of broker 2 led this many partitions."""
    old = Incarnation(2, 1)
    store = ensemble.connect()
    fence = await store.campaign()
    await store.append([ControllerStarted(fence.epoch), broker(2, 1)], fence)
    await store.append([Topic("orders", topic_id(1))], fence)
    for first in range(0, count, 500):
        await store.append(many(count, old)[first : first + 500], fence)
    await store.close()


def test_a_controller_starts_brokers_that_registered_before_and_after_its_election() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, second = Peer(ensemble, 1), Peer(ensemble, 2)
        epoch = await second.store.register(registration(2))
        await first.run()
        await settle()
        assert first.image.brokers[2].epoch == epoch
        assert 1 not in first.image.brokers

        epoch = await first.store.register(registration(1))
        await settle()
        assert first.image.brokers[1].epoch == epoch
        entries = len(ensemble.entries)
        await settle()
        assert len(ensemble.entries) == entries

    story(steps)


def test_a_broker_is_up_only_after_the_last_of_its_partitions() -> None:
    """After it the broker may forget the epochs from which it inherits."""
    count = 2 * MAX_RECORDS_PER_ENTRY + 1

    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, count)
        first, second = Peer(ensemble, 1), Peer(ensemble, 2)
        epoch = await second.store.register(registration(2, inherits=("epoch-1",)))
        member = RegisteredBroker(registration(2, inherits=("epoch-1",)), epoch)
        seen: list[set[Incarnation | None]] = []

        def note(image: Image, _entry: object) -> None:
            if is_up(image, member):
                seen.append({each.leader for each in image.partitions(topic_id(1))})

        first.publisher.subscribe(note)
        await first.run()
        await settle()

        assert seen[0] == {Incarnation(2, epoch)}
        assert first.losses == []

    story(steps)


def test_a_broker_is_live_but_gets_no_new_partitions_while_it_is_starting() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 2 * MAX_RECORDS_PER_ENTRY)
        first = Peer(ensemble, 1)
        epoch = await ensemble.connect().register(registration(2, inherits=("epoch-1",)))
        states: dict[BrokerState, int] = {}

        def note(image: Image, _entry: object) -> None:
            broker_2 = image.brokers[2]
            if broker_2.epoch == epoch:
                assert broker_2.is_live
                led = [each.leader for each in image.partitions(topic_id(1))]
                states.setdefault(broker_2.state, led.count(Incarnation(2, epoch)))
                fault = assignment_fault(image, (2,), 1)
                assert (fault is None) == (broker_2.state is BrokerState.UP)

        first.publisher.subscribe(note)
        await first.run()
        await settle()
        assert states == {BrokerState.STARTING: 0, BrokerState.UP: 2 * MAX_RECORDS_PER_ENTRY}
        first.check()

    story(steps)


def test_a_broker_whose_session_ended_is_gone_and_leads_nothing() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 3)
        first, store = Peer(ensemble, 1), ensemble.connect()
        epoch = await store.register(registration(2, inherits=("epoch-1",)))
        await first.run()
        await settle()
        ensemble.expire(store)
        await settle()
        assert first.image.brokers[2].state is BrokerState.GONE
        me = Incarnation(2, epoch)
        for each in first.image.partitions(topic_id(1)):
            assert (each.leader, each.isr, each.elr) == (None, (), (me,))

        again = await store.register(registration(2, inherits=("first",)))
        await settle()
        me = Incarnation(2, again)
        for each in first.image.partitions(topic_id(1)):
            assert (each.leader, each.isr, each.elr) == (me, (me,), ())
        assert first.losses == []
        first.check()

    story(steps)


def test_the_next_controller_completes_a_restart_that_the_last_one_began() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 3)
        store, broker_2 = ensemble.connect(), ensemble.connect()
        epoch = await broker_2.register(registration(2, inherits=("epoch-1",)))
        fence = await store.campaign()
        begun = membership_records(
            Image.of(await store.load()),
            [RegisteredBroker(registration(2, inherits=("epoch-1",)), epoch)],
        )
        await store.append([ControllerStarted(fence.epoch), *begun], fence)
        await store.close()
        first = Peer(ensemble, 1)
        await first.run()
        await settle()
        assert first.image.brokers[2].state is BrokerState.UP
        leaders = {each.leader for each in first.image.partitions(topic_id(1))}
        assert leaders == {Incarnation(2, epoch)}
        first.check()

    story(steps)


def test_a_broker_that_restarts_in_the_middle_of_its_restart_inherits_all_of_it() -> None:
    """Two of its partitions name the epoch before, one the epoch of the unfinished restart."""

    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 3)
        store, broker_2 = ensemble.connect(), ensemble.connect()
        unfinished = registration(2, inherits=("epoch-1",), incarnation_id="second")
        epoch = await broker_2.register(unfinished)
        fence = await store.campaign()
        image = Image.of(await store.load())
        records = membership_records(image, [RegisteredBroker(unfinished, epoch)])
        for record in records:
            image.apply(record)
        moved = partition_updates(image, [PartitionId(topic_id(1), 1)])
        await store.append([ControllerStarted(fence.epoch), *records, *moved], fence)
        await store.close()
        ensemble.expire(broker_2)
        third = registration(2, inherits=("epoch-1", "second"), incarnation_id="third")
        last = await broker_2.register(third)
        first = Peer(ensemble, 1)
        await first.run()
        await settle()
        leaders = [each.leader for each in first.image.partitions(topic_id(1))]
        assert leaders == [Incarnation(2, last)] * 3
        assert first.losses == []
        first.check()

    story(steps)


def test_only_damaged_logs_of_an_intact_broker_may_have_lost_records() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 3)
        first = Peer(ensemble, 1)
        damaged = (PartitionId(topic_id(1), 1),)
        told = replace(registration(2, inherits=("epoch-1",)), damaged=damaged)
        epoch = await ensemble.connect().register(told)
        await first.run()
        await settle()
        assert first.losses == [1]
        leaders = {each.leader for each in first.image.partitions(topic_id(1))}
        assert leaders == {Incarnation(2, epoch)}
        assert first.image.brokers[2].damaged == ()

    story(steps)


def test_many_brokers_that_start_at_once_with_damaged_logs_come_up() -> None:
    """Their records do not fit one entry."""

    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 1)
        logs = tuple(PartitionId(topic_id(number), 0) for number in range(DAMAGED_MAX))
        for broker_id in range(2, 12):
            told = registration(broker_id, inherits=("epoch-1",))
            await ensemble.connect().register(replace(told, damaged=logs, offline=logs))
        first = Peer(ensemble, 1)
        await first.run()
        await settle()
        first.check()
        states = {each.state for each in first.image.brokers.values()}
        assert (len(first.image.brokers), states) == (10, {BrokerState.UP})

    story(steps)


def test_a_draining_broker_is_recorded_as_such() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, second = await two_brokers(ensemble)
        await second.store.register(registration(2))
        await settle()
        assert first.image.brokers[2].state is BrokerState.UP
        await second.store.drain()
        await settle()
        assert first.image.brokers[2].state is BrokerState.DRAINING
        first.check()

    story(steps)


def test_possible_losses_of_a_broker_without_its_disks_are_recorded() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 1)
        first = Peer(ensemble, 1)
        await ensemble.connect().register(registration(2))
        await first.run()
        await settle()
        assert first.losses == [0]

    story(steps)


def test_possible_losses_outlive_the_controller_that_decided_them() -> None:
    """It is deposed in the middle of the update; every broker finds them in the records."""

    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, UPDATED_PER_ENTRY + 1)
        first, successor = Peer(ensemble, 1), ensemble.connect()

        def depose(_: Image, entry: Entry) -> None:
            if any(isinstance(record, Partition) for record in entry.records):
                ensemble.expire(first.store)
                ensemble._try_election(successor)

        first.publisher.subscribe(depose)
        await ensemble.connect().register(registration(2))
        await first.run()
        await settle()
        assert not first.publisher.is_controller
        changed = [each for each in first.image.partitions(topic_id(1)) if each.partition_epoch]
        assert len(changed) == UPDATED_PER_ENTRY
        assert len(first.losses) == UPDATED_PER_ENTRY

    story(steps)


def test_a_new_controller_updates_min_isr_before_it_is_settled() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 0)
        store = ensemble.connect()
        alone = partition(replicas=(2,), leader=None, isr=(), min_isr=1)
        await store.append([alone], await store.campaign())
        await store.close()
        first = Peer(ensemble, 1)
        member = RegisteredBroker(registration(1), await first.store.register(registration(1)))
        await first.run()
        await first.publisher.until(lambda image: is_up(image, member))
        await first.controller.until_settled()
        (record,) = first.image.partitions(topic_id(1))
        assert record.min_isr == 2
        first.check()

    story(steps)


def test_a_broker_that_drains_before_it_is_up_is_up_and_then_draining() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, second = Peer(ensemble, 1), Peer(ensemble, 2)
        await second.store.register(registration(2))
        await second.store.drain()
        states: list[BrokerState] = []

        def note(_image: Image, entry: Entry) -> None:
            states.extend(each.state for each in entry.records if isinstance(each, Broker))

        first.publisher.subscribe(note)
        await first.run()
        await settle()
        assert states == [BrokerState.STARTING, BrokerState.UP, BrokerState.DRAINING]
        first.check()

    story(steps)


def test_min_isr_does_not_depend_on_who_becomes_the_controller() -> None:
    other = load(given={"min.insync.replicas": "3"}, environment={}, file=None)

    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 2)
        first, second = Peer(ensemble, 1), Peer(ensemble, 2, settings=other)
        await first.run()
        await settle()
        await second.run()
        ensemble.expire(first.store)
        await settle()
        assert second.publisher.is_controller
        assert {each.min_isr for each in second.image.partitions(topic_id(1))} == {2}
        second.check()

    story(steps)


def test_the_record_of_a_broker_comes_first_and_last() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        await with_partitions(ensemble, 3)
        first = Peer(ensemble, 1)
        await ensemble.connect().register(registration(2, inherits=("epoch-1",)))
        returned: list[Record] = []
        first.publisher.subscribe(lambda _, entry: returned.extend(entry.records))
        await first.run()
        await settle()
        kinds = [type(each) for each in returned if isinstance(each, (Broker, Partition))]
        assert kinds == [Broker, Partition, Partition, Partition, Broker]

    story(steps)
