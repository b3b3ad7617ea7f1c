"""Fetch sessions: what is read, what is told, and who must make room."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.primitives import Uuid
from ottla.replication.fetch.fetch import Answer, Context, FetchLimits, read_items
from ottla.replication.fetch.sessions import FetchSessions
from ottla.replication.lookup import TopicKey
from ottla.replication.replica import Replica
from tests.sim.seams.entropy import SimEntropy
from tests.support.broker.produce_and_fetch import batch, fetch, wanted
from tests.support.replication.partitions import Partitions, topic_id

BATCH_BYTES = len(batch())
MINUTES_NS = 60 * 10**9


class Consumer:
    """Sends fetch requests, counts how many partitions each of them had to look at."""

    def __init__(self, partitions: Partitions, slots_max: int = 10, **limits: int) -> None:
        self.partitions = partitions
        self.sessions = FetchSessions(slots_max, partitions.clock, SimEntropy(), **limits)
        self.looked_at = 0

    def find(self, topic: TopicKey, index: int) -> Replica:
        self.looked_at += 1
        return self.partitions.find(topic, index)

    def open(self, request: FetchRequest, *, uses_ids: bool = False) -> Context:
        isolation = Isolation(request.isolation_level)
        return self.sessions.open(request, isolation, uses_ids=uses_ids)

    def ask(self, request: FetchRequest) -> Answer:
        self.looked_at = 0
        context = self.open(request)
        limits = FetchLimits(1, request.max_bytes, Isolation(request.isolation_level))
        reading = read_items(context.items(), limits, self.find)
        context.settle(reading)
        return context.answer(reading)

    def begin(self, *indexes: int, topic: str = "events") -> int:
        """A new session of these partitions, from their first offsets on; its id."""
        answer = self.ask(fetch(topic, *map(wanted, indexes), session=(0, 0)))
        assert len(answer.reads) == len(indexes)
        return answer.session_id


def told(answer: Answer) -> list[int]:
    return [read.item.asked.partition for read in answer.reads]


def outcome(answer: Answer, number: int = 0) -> Any:
    return answer.reads[number].outcome


def code_of(consumer: Consumer, request: FetchRequest, *, uses_ids: bool = False) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        consumer.open(request, uses_ids=uses_ids)
    return caught.value.code


def test_an_idle_session_looks_at_no_partition_however_many_it_has() -> None:
    partitions = Partitions()
    partitions.create(partitions=500)
    consumer = Consumer(partitions)
    session_id = consumer.begin(*range(500))
    assert consumer.looked_at == 500
    for epoch in range(1, 5):
        answer = consumer.ask(fetch("events", session=(session_id, epoch)))
        assert (answer.session_id, answer.reads, consumer.looked_at) == (session_id, [], 0)


def test_only_what_grew_is_looked_at_and_told() -> None:
    partitions = Partitions()
    partitions.create(partitions=100)
    consumer = Consumer(partitions)
    session_id = consumer.begin(*range(100))
    partitions.append(partitions.find("events", 42))
    answer = consumer.ask(fetch("events", session=(session_id, 1)))
    assert (told(answer), consumer.looked_at) == ([42], 1)
    assert outcome(answer).size == BATCH_BYTES
    # It did not say that it has read on: so it gets the same again.
    answer = consumer.ask(fetch("events", session=(session_id, 2)))
    assert (told(answer), outcome(answer).size) == ([42], BATCH_BYTES)
    answer = consumer.ask(fetch("events", wanted(42, 1), session=(session_id, 3)))
    assert (answer.reads, consumer.looked_at) == ([], 1)
    assert consumer.ask(fetch("events", session=(session_id, 4))).reads == []
    assert consumer.looked_at == 0


def test_a_start_that_moved_is_told_once_and_without_records() -> None:
    partitions = Partitions()
    replica = partitions.create()
    for _ in range(3):
        partitions.append(replica)
    consumer = Consumer(partitions)
    answer = consumer.ask(fetch("events", wanted(0, 3), session=(0, 0)))
    assert replica.log is not None
    replica.log.advance_start(2)
    replica.waiting.wake_all()
    moved = consumer.ask(fetch("events", session=(answer.session_id, 1)))
    assert (told(moved), outcome(moved).start_offset, outcome(moved).size) == ([0], 2, 0)
    assert consumer.ask(fetch("events", session=(answer.session_id, 2))).reads == []


def test_partitions_that_gave_records_go_to_the_end_and_none_starves() -> None:
    partitions = Partitions()
    partitions.create(partitions=4)
    for index in range(4):
        for _ in range(3):
            partitions.append(partitions.find("events", index))
    consumer = Consumer(partitions)
    session_id = consumer.begin(0, 1, 2, 3)
    served: list[int] = []
    offsets = dict.fromkeys(range(4), 0)
    for epoch in range(1, 13):
        read_on = [wanted(index, offsets[index]) for index in served[-1:]]
        answer = consumer.ask(
            fetch("events", *read_on, session=(session_id, epoch), bytes_max=BATCH_BYTES)
        )
        (index,) = [
            read.item.asked.partition
            for read in answer.reads
            if not isinstance(read.outcome, PeerError) and read.outcome.records
        ]
        served.append(index)
        offsets[index] += 1
    assert served == [0, 1, 2, 3] * 3


def test_a_forgotten_partition_is_not_told_of_any_more() -> None:
    partitions = Partitions()
    partitions.create(partitions=2)
    consumer = Consumer(partitions)
    session_id = consumer.begin(0, 1)
    consumer.ask(fetch("events", session=(session_id, 1), forget=[1]))
    for index in (0, 1):
        partitions.append(partitions.find("events", index))
    assert told(consumer.ask(fetch("events", session=(session_id, 2)))) == [0]
    assert consumer.sessions.partitions == 1
    assert len(partitions.find("events", 1).waiting) == 0


def test_a_session_that_forgot_everything_is_over() -> None:
    partitions = Partitions()
    partitions.create()
    consumer = Consumer(partitions)
    session_id = consumer.begin(0)
    answer = consumer.ask(fetch("events", session=(session_id, 1), forget=[0]))
    assert answer == Answer(0, [])
    assert (len(consumer.sessions), consumer.sessions.partitions) == (0, 0)


def test_an_error_is_told_each_time_until_it_is_over() -> None:
    partitions = Partitions()
    partitions.create("events", 1)
    consumer = Consumer(partitions)
    answer = consumer.ask(fetch("later", wanted(0), session=(0, 0)))
    session_id = answer.session_id
    assert outcome(answer).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    again = consumer.ask(fetch("later", session=(session_id, 1)))
    assert outcome(again).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions.append(partitions.create("later"))
    found = consumer.ask(fetch("later", session=(session_id, 2)))
    assert outcome(found).size == BATCH_BYTES


def test_a_topic_deleted_and_made_again_is_not_taken_for_the_old_one() -> None:
    partitions = Partitions()
    old = partitions.create()
    partitions.append(old)
    consumer = Consumer(partitions)
    answer = consumer.ask(fetch("events", wanted(0, 1), session=(0, 0)))
    partitions.delete(old)
    gone = consumer.ask(fetch("events", session=(answer.session_id, 1)))
    assert outcome(gone).code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    new = partitions.create()
    behind = consumer.ask(fetch("events", session=(answer.session_id, 2)))
    assert outcome(behind).code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (len(old.waiting), len(new.waiting)) == (0, 1)
    empty = consumer.ask(fetch("events", wanted(0, 0), session=(answer.session_id, 3)))
    assert outcome(empty).high_watermark == 0
    partitions.append(new)
    assert told(consumer.ask(fetch("events", session=(answer.session_id, 4)))) == [0]


def test_another_isolation_level_has_everything_read_anew() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    consumer = Consumer(partitions)
    answer = consumer.ask(fetch("events", wanted(0), session=(0, 0), isolation=1))
    assert outcome(answer).size == 0
    assert consumer.ask(fetch("events", session=(answer.session_id, 1), isolation=1)).reads == []
    dirty = consumer.ask(fetch("events", session=(answer.session_id, 2), isolation=0))
    assert outcome(dirty).size > 0
    partitions.end_transaction(replica, MarkerKind.COMMIT, 1)
    clean = consumer.ask(fetch("events", session=(answer.session_id, 3), isolation=1))
    assert (outcome(clean).size, outcome(clean).last_stable_offset) == (
        outcome(dirty).size + 78,
        2,
    )


def test_a_session_waits_for_the_bytes_of_its_isolation_level() -> None:
    partitions = Partitions()
    replica = partitions.create()
    consumer = Consumer(partitions)
    answer = consumer.ask(fetch("events", wanted(0), session=(0, 0), isolation=1))
    (session,) = consumer.sessions._sessions.values()
    counted: list[int] = []

    class Counting:
        def count(self, amount: int) -> None:
            counted.append(amount)

        def wake(self) -> None:
            counted.append(-1)

    session.waiting.enter(Counting())
    transaction = {"transactional": True, "producer_id": 1, "producer_epoch": 0}
    partitions.append(replica, **transaction, base_sequence=0)
    assert counted == [0]
    news = consumer.ask(fetch("events", session=(answer.session_id, 1), isolation=1))
    assert (outcome(news).size, outcome(news).high_watermark) == (0, 1)
    consumer.ask(fetch("events", session=(answer.session_id, 2), isolation=0))
    partitions.append(replica, **transaction, base_sequence=1)
    assert counted[-1] > 0
    consumer.ask(fetch("events", session=(answer.session_id, 3), isolation=1))
    partitions.append(replica, **transaction, base_sequence=2)
    assert counted[-1] == 0
    partitions.end_transaction(replica, MarkerKind.COMMIT, 1)
    assert counted[-1] == -1


def test_a_session_must_be_there_at_its_epoch_and_named_the_same_way() -> None:
    partitions = Partitions()
    partitions.create()
    consumer = Consumer(partitions)
    session_id = consumer.begin(0)
    unknown = fetch("events", session=(session_id ^ 1, 1))
    assert code_of(consumer, unknown) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for epoch in (2, 7, -2):
        wrong = fetch("events", session=(session_id, epoch))
        assert code_of(consumer, wrong) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    by_id = fetch(topic_id(1), session=(session_id, 1))
    assert code_of(consumer, by_id, uses_ids=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert consumer.ask(fetch("events", session=(session_id, 1))).session_id == session_id
    repeated = fetch("events", session=(session_id, 1))
    assert code_of(consumer, repeated) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_behind_the_largest_is_1() -> None:
    partitions = Partitions()
    partitions.create()
    consumer = Consumer(partitions)
    session_id = consumer.begin(0)
    (session,) = consumer.sessions._sessions.values()
    session.epoch = 2**31 - 1
    consumer.ask(fetch("events", session=(session_id, 2**31 - 1)))
    assert consumer.ask(fetch("events", session=(session_id, 1))).session_id == session_id


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_with_a_session_id_ends_that_session(epoch: int) -> None:
    partitions = Partitions()
    replica = partitions.create()
    consumer = Consumer(partitions)
    session_id = consumer.begin(0)
    answer = consumer.ask(fetch("events", wanted(0), session=(session_id, epoch)))
    assert answer.session_id != session_id
    assert (answer.session_id == 0) == (epoch == -1)
    gone = fetch("events", session=(session_id, 1))
    assert code_of(consumer, gone) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(replica.waiting) == len(consumer.sessions)


def test_without_a_free_slot_a_client_is_answered_without_a_session() -> None:
    partitions = Partitions()
    partitions.create(partitions=3)
    for slots_max in (0, 2):
        consumer = Consumer(partitions, slots_max)
        begun = [consumer.begin(0, 1) for _ in range(slots_max)]
        assert 0 not in begun
        assert consumer.begin(0, 1, 2) == 0, "the others have not had their two minutes"
        assert len(consumer.sessions) == slots_max


def test_who_was_idle_for_two_minutes_makes_room() -> None:
    partitions = Partitions()
    partitions.create(partitions=2)
    consumer = Consumer(partitions, slots_max=2)
    idle, busy = consumer.begin(0, 1), consumer.begin(0, 1)
    partitions.clock.advance(ns=2 * MINUTES_NS)
    consumer.ask(fetch("events", session=(busy, 1)))
    partitions.clock.advance(ns=1)
    assert consumer.begin(0) != 0
    assert (
        code_of(consumer, fetch("events", session=(idle, 1)))
        is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    assert consumer.ask(fetch("events", session=(busy, 2))).session_id == busy


def test_a_larger_session_takes_the_place_of_the_smallest_that_had_its_time() -> None:
    partitions = Partitions()
    partitions.create(partitions=5)
    consumer = Consumer(partitions, slots_max=2)
    large, small = consumer.begin(0, 1, 2), consumer.begin(0, 1)
    partitions.clock.advance(ns=2 * MINUTES_NS + 1)
    for session_id in (large, small):
        consumer.ask(fetch("events", session=(session_id, 1)))
    assert consumer.begin(0, 1) == 0, "not larger"
    assert consumer.begin(0, 1, 2, 3) != 0
    assert consumer.ask(fetch("events", session=(large, 2))).session_id == large
    assert (
        code_of(consumer, fetch("events", session=(small, 2)))
        is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    assert len(consumer.sessions) == 2


def test_the_partitions_of_all_sessions_together_are_limited() -> None:
    partitions = Partitions()
    partitions.create(partitions=5)
    consumer = Consumer(partitions, partitions_max=5)
    session_id = consumer.begin(0, 1, 2)
    assert consumer.begin(0, 1, 2) == 0
    assert consumer.begin(0) != 0
    grown = fetch("events", wanted(3), wanted(4), session=(session_id, 1))
    assert code_of(consumer, grown) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert consumer.sessions.partitions == 1


def test_topic_ids_name_the_partitions_of_a_session_as_well() -> None:
    partitions = Partitions()
    replica = partitions.create()
    consumer = Consumer(partitions)
    key: Uuid = topic_id(1)
    context = consumer.open(fetch(key, wanted(0), session=(0, 0)), uses_ids=True)
    limits = FetchLimits(1, 1_000, Isolation.READ_UNCOMMITTED)
    answer = context.answer(read_items(context.items(), limits, consumer.find))
    partitions.append(replica)
    request = fetch(key, session=(answer.session_id, 1))
    context = consumer.open(request, uses_ids=True)
    assert [item.topic for item in context.items()] == [key]
