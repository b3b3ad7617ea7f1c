"""A follower's fetch session: full once, then only what changes."""

from ottla.metadata.values import Incarnation, PartitionId
from ottla.protocol.messages.fetch import FetchRequest
from ottla.replication.following.session import (
    EPOCH_MAX,
    NAMED_MAX,
    FetchBounds,
    FollowerSession,
    Position,
)
from tests.support.replication.partitions import topic_id

ME = Incarnation(2, 20)
BOUNDS = FetchBounds(wait_ms_max=500, bytes_min=1, response_bytes_max=1000, partition_bytes_max=100)
FIRST, SECOND = PartitionId(topic_id(1), 0), PartitionId(topic_id(2), 3)


def at(end_offset: int) -> Position:
    return Position(leader_epoch=4, end_offset=end_offset, last_epoch=3, start_offset=1)


def named(request: FetchRequest) -> list[tuple[PartitionId, int]]:
    return [
        (PartitionId(topic.topic_id, each.partition), each.fetch_offset)
        for topic in request.topics
        for each in topic.partitions
    ]


def forgotten(request: FetchRequest) -> list[PartitionId]:
    return [
        PartitionId(topic.topic_id, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def test_the_first_request_names_all_partitions_and_where_their_logs_end() -> None:
    session = FollowerSession(ME)
    session.put(FIRST, at(7))
    session.put(SECOND, at(0))
    request = session.request(BOUNDS).message()
    assert named(request) == [(FIRST, 7), (SECOND, 0)]
    assert (request.session_id, request.session_epoch) == (0, 0)
    state = request.replica_state
    assert state is not None
    assert (state.replica_id, state.replica_epoch) == ME
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1000)
    partition = request.topics[0].partitions[0]
    assert partition.current_leader_epoch == 4
    assert partition.last_fetched_epoch == 3
    assert partition.log_start_offset == 1
    assert partition.partition_max_bytes == 100


def test_later_requests_name_only_what_has_changed() -> None:
    session = FollowerSession(ME)
    session.put(FIRST, at(7))
    session.put(SECOND, at(0))
    session.request(BOUNDS)
    session.answered(9)
    idle = session.request(BOUNDS).message()
    assert (named(idle), idle.session_id, idle.session_epoch) == ([], 9, 1)
    session.answered(9)
    session.put(FIRST, at(8))
    session.put(SECOND, at(0))
    assert named(session.request(BOUNDS).message()) == [(FIRST, 8)]


def test_partitions_that_are_removed_are_forgotten_once() -> None:
    session = FollowerSession(ME)
    session.put(FIRST, at(7))
    session.put(SECOND, at(0))
    session.request(BOUNDS)
    session.answered(9)
    session.remove(FIRST)
    session.remove(FIRST)
    assert len(session) == 1
    request = session.request(BOUNDS).message()
    assert (forgotten(request), named(request)) == ([FIRST], [])
    session.answered(9)
    assert forgotten(session.request(BOUNDS).message()) == []


def test_a_partition_that_comes_back_is_named_and_not_forgotten() -> None:
    session = FollowerSession(ME)
    session.put(FIRST, at(7))
    session.request(BOUNDS)
    session.answered(9)
    session.remove(FIRST)
    session.put(FIRST, at(7))
    request = session.request(BOUNDS).message()
    assert (forgotten(request), named(request)) == ([], [(FIRST, 7)])


def test_without_a_session_every_request_is_full() -> None:
    session = FollowerSession(ME)
    session.put(FIRST, at(7))
    session.request(BOUNDS)
    session.answered(0)
    request = session.request(BOUNDS).message()
    assert (named(request), request.session_epoch) == ([(FIRST, 7)], 0)


def test_the_epoch_of_a_session_wraps_to_one() -> None:
    session = FollowerSession(ME)
    session.put(FIRST, at(7))
    session._epoch = EPOCH_MAX
    session.answered(9)
    assert session.request(BOUNDS).message().session_epoch == 1


def test_an_answer_is_void_once_the_position_has_changed() -> None:
    session = FollowerSession(ME)
    assert not session.is_as_asked(FIRST)
    session.put(FIRST, at(7))
    session.request(BOUNDS)
    assert session.is_as_asked(FIRST)
    session.put(FIRST, at(7)._replace(leader_epoch=5))
    assert not session.is_as_asked(FIRST)
    session.request(BOUNDS)
    assert session.is_as_asked(FIRST)
    session.remove(FIRST)
    assert not session.is_as_asked(FIRST)


def test_many_partitions_are_named_by_several_requests_that_do_not_wait() -> None:
    session = FollowerSession(ME)
    partitions = [PartitionId(topic_id(1), index) for index in range(2 * NAMED_MAX + 1)]
    for partition in partitions:
        session.put(partition, at(7))
    found: list[PartitionId] = []
    waits = []
    for _ in range(3):
        request = session.request(BOUNDS).message()
        session.answered(9)
        found += [partition for partition, _ in named(request)]
        waits.append(request.max_wait_ms)
    assert found == partitions
    assert waits == [0, 0, 500]
    for partition in partitions:
        session.remove(partition)
    left = [len(forgotten(session.request(BOUNDS).message())) for _ in range(4)]
    assert left == [NAMED_MAX, NAMED_MAX, 1, 0]
