"""The controller elects among replicas that may have lost records, by the ends of their logs."""

import asyncio
from collections.abc import Sequence

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.unclean_election import LogEnd
from ottla.metadata.memory import MemoryEnsemble, MemoryStore
from ottla.metadata.records import (
    Config,
    ControllerStarted,
    DeletedName,
    Partition,
    Record,
    Topic,
    TopicDeleted,
)
from ottla.metadata.unclean_elections import (
    BACKOFF_S_MAX,
    PARTITIONS_PER_ROUND,
    ToldLogEnds,
    no_answer,
)
from ottla.metadata.values import Incarnation, PartitionId, ResourceKind
from tests.support.metadata.controller_peers import Peer, deciding, settle, story
from tests.support.metadata.sample_records import broker, partition, registration, topic_id

# The broker epochs that the ensemble gives to brokers 2 and 3, in this order.
TWO, THREE = Incarnation(2, 3), Incarnation(3, 6)
SHORT, LONG = LogEnd(4, 10), LogEnd(4, 11)
FIRST = PartitionId(topic_id(1), 0)
ALLOWED = Config(ResourceKind.TOPIC, "orders", "unclean.leader.election.enable", "true")
ALLOWED_BY_BROKERS = Config(ResourceKind.BROKER, "", "unclean.leader.election.enable", "true")
FORBIDDEN = Config(ResourceKind.TOPIC, "orders", "unclean.leader.election.enable", "false")


def leaderless(index: int = 0, **fields: object) -> Partition:
    """Brokers 2 and 3 have both restarted without their memberships."""
    return partition(
        index=index,
        **{"replicas": (2, 3), "leader": None, "isr": (), "unclean": (2, 3), **fields},
    )


async def begin(ensemble: MemoryEnsemble, *records: Record) -> tuple[Peer, dict[int, MemoryStore]]:
    """A log with these records, brokers 2 and 3, and a controller that is not started."""
    store = ensemble.connect()
    fence = await store.campaign()
    known = [broker(2, 1), broker(3, 1), Topic("orders", topic_id(1))]
    await store.append([ControllerStarted(fence.epoch), *known, *records], fence)
    await store.close()
    stores = {}
    for number in (2, 3):
        stores[number] = ensemble.connect()
        await stores[number].register(registration(number))
    return Peer(ensemble, 1), stores


def only(peer: Peer, index: int = 0) -> Partition:
    found = peer.image.partition(topic_id(1), index)
    assert found is not None
    return found


def tell(peer: Peer, incarnation: Incarnation, end: LogEnd, count: int = 1) -> None:
    peer.log_ends[incarnation] = {PartitionId(topic_id(1), index): end for index in range(count)}


def test_the_longest_log_wins_and_the_possible_loss_is_recorded() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, _ = await begin(ensemble, leaderless())
        tell(first, TWO, SHORT)
        tell(first, THREE, LONG)
        await first.run()
        await settle()
        after = only(first)
        assert (after.leader, after.isr, after.unclean) == (THREE, (THREE,), (2,))
        assert after.possible_loss_epoch == after.leader_epoch
        assert first.controller.unclean_elections._leaderless == {}
        first.check()

    story(steps)


def test_a_candidate_without_an_answer_is_asked_again_until_it_answers() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, _ = await begin(ensemble, leaderless())
        tell(first, TWO, LONG)
        await first.run()
        await asyncio.sleep(60)
        assert only(first).leader is None
        # Not as fast as it can.
        assert 60 / BACKOFF_S_MAX < first.asked.count(3) < 40
        tell(first, THREE, SHORT)
        await asyncio.sleep(BACKOFF_S_MAX + 1)
        assert only(first).leader == TWO
        first.check()

    story(steps)


def test_the_answer_of_another_incarnation_does_not_count() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, _ = await begin(ensemble, leaderless())
        tell(first, TWO, SHORT)
        tell(first, Incarnation(3, 5), LONG)
        await first.run()
        await settle()
        assert only(first).leader is None
        first.check()

    story(steps)


def test_nobody_is_asked_before_all_unclean_replicas_are_live() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, stores = await begin(ensemble, leaderless())
        ensemble.expire(stores[3])
        tell(first, TWO, SHORT)
        await first.run()
        await asyncio.sleep(30)
        assert (only(first).leader, first.asked) == (None, [])
        epoch = await stores[3].register(registration(3))
        tell(first, Incarnation(3, epoch), LONG)
        await settle()
        assert only(first).leader == Incarnation(3, epoch)
        first.check()

    story(steps)


@pytest.mark.parametrize("allowed", [ALLOWED, ALLOWED_BY_BROKERS])
def test_a_setting_that_allows_unclean_elections_has_one_held_at_once(allowed: Config) -> None:
    """An eligible leader replica, broker 9, may come back; nobody waits for it any more."""

    async def steps(ensemble: MemoryEnsemble) -> None:
        lost = leaderless(replicas=(9, 2, 3), elr=(Incarnation(9, 1),), unclean=())
        first, _ = await begin(ensemble, broker(9, 1), lost)
        tell(first, TWO, SHORT)
        tell(first, THREE, LONG)
        await first.run()
        await asyncio.sleep(30)
        assert (only(first).leader, first.asked) == (None, [])
        await first.controller.commit(deciding(allowed))
        await settle()
        after = only(first)
        assert (after.leader, after.elr, after.unclean) == (THREE, (), (9,))
        first.check()

    story(steps)


def test_the_setting_counts_when_the_answers_are_there() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        lost = leaderless(replicas=(9, 2, 3), elr=(Incarnation(9, 1),), unclean=())
        first, _ = await begin(ensemble, broker(9, 1), lost, ALLOWED)
        asked = asyncio.Event()

        async def forbid_meanwhile(
            broker_id: int, partitions: Sequence[PartitionId]
        ) -> ToldLogEnds:
            if not asked.is_set():
                asked.set()
                await first.controller.commit(deciding(FORBIDDEN))
            return ToldLogEnds({2: TWO, 3: THREE}[broker_id], dict.fromkeys(partitions, LONG))

        first.controller.unclean_elections._ask = forbid_meanwhile
        await first.run()
        await asyncio.sleep(30)
        assert asked.is_set()
        assert only(first).leader is None
        first.check()

    story(steps)


def test_partitions_are_elected_round_by_round_and_a_silent_broker_is_asked_once_a_pass() -> None:
    count = 2 * PARTITIONS_PER_ROUND + 1

    async def steps(ensemble: MemoryEnsemble) -> None:
        first, _ = await begin(ensemble, *(leaderless(index) for index in range(400)))
        await first.follow()
        # More than an entry holds.
        await first.publisher.lead(1)
        await first.publisher.commit(deciding(*(leaderless(index) for index in range(400, count))))
        first.publisher._fence = None
        tell(first, TWO, LONG, count)
        first.tasks.append(asyncio.create_task(first.controller.run()))
        await asyncio.sleep(0.01)
        assert first.asked.count(3) == 1
        tell(first, THREE, SHORT, count)
        head = first.image.offset
        await settle()
        assert {each.leader for each in first.image.partitions(topic_id(1))} == {TWO}
        assert first.image.offset - head == 3
        first.check()

    story(steps)


def test_partitions_of_deleted_topics_are_forgotten() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, _ = await begin(ensemble, leaderless(leader_epoch=0))
        await first.run()
        await settle()
        asked = len(first.asked)
        assert asked > 0
        await first.controller.commit(
            deciding(DeletedName("orders", 1), TopicDeleted(topic_id(1), "orders"))
        )
        await asyncio.sleep(BACKOFF_S_MAX * 2)
        assert len(first.asked) == asked
        assert first.controller.unclean_elections._leaderless == {}
        first.check()

    story(steps)


def test_the_next_controller_elects_what_the_last_one_could_not() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, _ = await begin(ensemble, leaderless())
        await first.run()
        await settle()
        second = Peer(ensemble, 4)
        tell(second, TWO, LONG)
        tell(second, THREE, SHORT)
        await second.run()
        await settle()
        assert only(second).leader is None
        assert second.asked == []
        ensemble.expire(first.store)
        await settle()
        assert only(second).leader == TWO
        second.check()
        first.check()

    story(steps)


# --- elections that are asked for -------------------------------------------------------------


async def force(peer: Peer, *indexes: int) -> list[ErrorCode | None]:
    ids = [PartitionId(topic_id(1), index) for index in indexes]
    outcomes = await peer.controller.unclean_elections.elect(ids, 3_000)
    errors = [outcomes[each] for each in ids]
    return [None if error is None else error.code for error in errors]


def test_a_forced_election_needs_no_setting_and_waits_for_nobody_who_is_gone() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        lost = leaderless(replicas=(9, 2, 3), elr=(Incarnation(9, 1),), unclean=())
        first, _ = await begin(ensemble, broker(9, 1), lost)
        tell(first, TWO, LONG)
        tell(first, THREE, SHORT)
        await first.run()
        await settle()
        assert await force(first, 0) == [None]
        assert only(first).leader == TWO
        assert only(first).possible_loss_epoch is not None
        # Somebody leads: nothing is elected, and nothing refused.
        entries = len(ensemble.entries)
        assert await force(first, 0, 7) == [None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert len(ensemble.entries) == entries

    story(steps)


def test_a_forced_election_times_out_without_an_answer() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        gone = leaderless(1, replicas=(9,), elr=(Incarnation(9, 1),), unclean=())
        first, _ = await begin(ensemble, broker(9, 1), leaderless(), gone)
        tell(first, TWO, LONG)
        await first.run()
        await settle()
        began = asyncio.get_running_loop().time()
        codes = await force(first, 0, 1)
        assert codes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        assert asyncio.get_running_loop().time() - began == pytest.approx(3)
        assert only(first).leader is None

    story(steps)


def test_only_the_controller_holds_elections() -> None:
    async def steps(ensemble: MemoryEnsemble) -> None:
        first, _ = await begin(ensemble, leaderless())
        await first.run()
        await settle()
        second = Peer(ensemble, 4)
        tell(second, TWO, LONG)
        tell(second, THREE, SHORT)
        await second.run()
        await settle()
        with pytest.raises(PeerError) as refused:
            await force(second, 0)
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    story(steps)


def test_a_controller_without_a_way_to_others_gets_no_answer() -> None:
    async def steps(_: MemoryEnsemble) -> None:
        with pytest.raises(PeerError):
            await no_answer(2, [FIRST])

    story(steps)
