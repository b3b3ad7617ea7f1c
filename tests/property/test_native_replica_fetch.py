"""Native code writes and reads replica fetches and their answers as the declared codec does.

Inputs derive from seeds, so failures are reproducible.
"""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native import replica_fetch as compiled_or_not
from ottla.protocol.exchange import decode_request, decode_response, encode_request, encode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    NodeEndpoint,
    Partition,
    PartitionResult,
    ReplicaState,
    Topic,
    TopicResult,
)
from ottla.protocol.primitives import Uuid
from tests.support.native_modules import KINDS, load
from tests.support.request_frames import frames_of_others, joined, mutations, recorded_frames

FETCH = APIS[1]
VERSION = compiled_or_not.VERSION
CLIENT_ID = "broker-2"
WITH_WATERMARK = Partition(partition=0, fetch_offset=0, partition_max_bytes=1, high_watermark=5)

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
topic_ids = st.binary(min_size=16, max_size=16)
positions = st.tuples(int32s, int32s, int64s, int32s, int64s, int32s)
asked_topics = st.lists(st.tuples(topic_ids, st.lists(positions, max_size=3)), max_size=3)
# More than one byte of a varint, too.
asked_of_many = st.lists(
    st.tuples(topic_ids, st.lists(positions, min_size=130, max_size=130)), max_size=1
)
requests = st.tuples(
    int32s,
    st.tuples(int32s, int64s),
    st.tuples(int32s, int32s, int32s),
    st.tuples(int32s, int32s),
    asked_topics | asked_of_many,
)
results = st.tuples(int32s, int64s, int64s, st.binary(max_size=300))
answered_topics = st.lists(st.tuples(topic_ids, st.lists(results, max_size=3)), max_size=3)


def declared_request(request: tuple[Any, ...]) -> FetchRequest:
    _, replica, limits, session, topics = request
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
        max_wait_ms=limits[0],
        min_bytes=limits[1],
        max_bytes=limits[2],
        session_id=session[0],
        session_epoch=session[1],
        topics=tuple(
            Topic(
                topic_id=Uuid(topic_id),
                partitions=tuple(
                    Partition(
                        partition=index,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_epoch,
                        log_start_offset=start,
                        partition_max_bytes=size,
                    )
                    for index, leader_epoch, offset, last_epoch, start, size in each
                ),
            )
            for topic_id, each in topics
        ),
    )


def read_by_codec(frame: bytes) -> tuple[Any, ...]:
    """A frame decoded by the codec, in the form of the native reader."""
    header, _, message = decode_request(frame)
    assert header.request_api_version == VERSION
    assert not message.forgotten_topics_data
    assert not message.rack_id
    assert message.cluster_id is None
    assert message.isolation_level == 0
    state = message.replica_state
    topics = [
        (
            topic.topic_id,
            [
                (
                    *(each.partition, each.current_leader_epoch, each.fetch_offset),
                    *(each.last_fetched_epoch, each.log_start_offset, each.partition_max_bytes),
                )
                for each in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    return (
        header.correlation_id,
        (state.replica_id, state.replica_epoch),
        (message.max_wait_ms, message.min_bytes, message.max_bytes),
        (message.session_id, message.session_epoch),
        topics,
    )


def check_request(kind: ModuleType, frame: bytes) -> bool:
    """Whether a frame is ordinary; if so, both readers must agree."""
    read = kind.read_request(memoryview(frame))
    if read is None:
        return False
    assert read == read_by_codec(frame)
    return True


@settings(derandomize=True, deadline=None, max_examples=150)
@given(request=requests)
def test_a_fetch_is_written_and_read_as_the_codec_does(request: tuple[Any, ...]) -> None:
    correlation_id = request[0]
    declared = joined(
        encode_request(correlation_id, FETCH, VERSION, declared_request(request), CLIENT_ID)
    )
    for kind in KINDS:
        module = load("replica_fetch", kind)
        correlation_id, *rest = request
        assert module.write_request(correlation_id, CLIENT_ID.encode(), *rest) == declared
        assert check_request(module, declared[4:])
        assert module.read_request(memoryview(declared)[4:]) == request


def ordinary_frames() -> list[bytes]:
    def positions_of(count: int) -> list[tuple[int, ...]]:
        return [(index, 3, 40 + index, 2, 0, 1 << 20) for index in range(count)]

    return [
        bytes(
            compiled_or_not.write_request(
                count, CLIENT_ID.encode(), (2, 1 << 40), (500, 1, 1 << 20), (7, count), topics
            )[4:]
        )
        for count, topics in enumerate(
            (
                [],
                [(bytes(16), positions_of(1))],
                [(bytes(range(16)), positions_of(2)), (bytes(16), positions_of(3))],
            )
        )
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_fetches_are_left_to_the_codec_or_read_as_it_reads_them(kind: str) -> None:
    module = load("replica_fetch", kind)
    outcomes = [
        check_request(module, damaged)
        for number, frame in enumerate(ordinary_frames())
        for damaged in mutations(frame, number)
    ]
    assert True in outcomes
    assert False in outcomes


def test_compiled_and_interpreted_say_the_same_of_every_damaged_fetch() -> None:
    kinds = [load("replica_fetch", kind) for kind in KINDS]
    for number, frame in enumerate(ordinary_frames()):
        for damaged in mutations(frame, 1_000 + number):
            first, *others = [kind.read_request(memoryview(damaged)) for kind in kinds]
            assert all(other == first for other in others)


@pytest.mark.parametrize("kind", KINDS)
def test_no_fetch_of_a_consumer_and_no_other_request_is_read(kind: str) -> None:
    module = load("replica_fetch", kind)
    frames = [*recorded_frames(FETCH), *frames_of_others(FETCH)]
    assert frames
    assert not any(module.read_request(memoryview(frame)) for frame in frames)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        {"forgotten_topics_data": (ForgottenTopic(partitions=(1,)),)},
        {"rack_id": "a"},
        {"cluster_id": "a"},
        {"isolation_level": 1},
        {"replica_state": None},
        {"topics": (Topic(partitions=(WITH_WATERMARK,)),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_fetch_that_is_not_ordinary_is_left_to_the_codec(
    kind: str, change: dict[str, Any]
) -> None:
    request = declared_request((1, (2, 3), (500, 1, 100), (7, 8), []))
    for name, value in change.items():
        setattr(request, name, value)
    frame = joined(encode_request(1, FETCH, VERSION, request, CLIENT_ID))[4:]
    assert load("replica_fetch", kind).read_request(memoryview(frame)) is None


# Answers


def declared_answer(session_id: int, topics: list[tuple[bytes, list[Any]]]) -> FetchResponse:
    return FetchResponse(
        session_id=session_id,
        responses=tuple(
            TopicResult(
                topic_id=Uuid(topic_id),
                partitions=tuple(
                    PartitionResult(
                        partition_index=index,
                        error_code=0,
                        high_watermark=high_watermark,
                        last_stable_offset=high_watermark,
                        log_start_offset=start_offset,
                        aborted_transactions=None,
                        records=records,
                    )
                    for index, high_watermark, start_offset, records in each
                ),
            )
            for topic_id, each in topics
        ),
    )


def written(module: ModuleType, topics: list[tuple[bytes, list[Any]]]) -> bytes:
    """The frame of an answer, its records between the parts."""
    sized = [(topic_id, [(*each[:3], len(each[3])) for each in part]) for topic_id, part in topics]
    parts = module.write_answer(9, 7, sized)
    records = [each[3] for _, part in topics for each in part if each[3]]
    assert len(parts) == len(records) + 1
    between = [*records, b""]
    return b"".join(part + each for part, each in zip(parts, between, strict=True))


def check_answer(kind: ModuleType, frame: bytes) -> bool:
    """Whether an answer is ordinary; if so, both readers must agree."""
    read = kind.read_answer(memoryview(frame))
    if read is None:
        return False
    message = decode_response(frame, FETCH, VERSION)
    assert not message.error_code
    assert not message.node_endpoints
    session_id, partitions = read
    assert session_id == message.session_id
    declared = [
        (
            *(topic.topic_id, each.partition_index, each.high_watermark, each.log_start_offset),
            bytes(each.records),
        )
        for topic in message.responses
        for each in topic.partitions
        if not (each.error_code or each.diverging_epoch or each.current_leader)
    ]
    assert declared == [(*each[:4], frame[each[4] : each[5]]) for each in partitions]
    assert len(declared) == sum(len(topic.partitions) for topic in message.responses)
    return True


@settings(derandomize=True, deadline=None, max_examples=150)
@given(topics=answered_topics)
def test_an_answer_is_written_and_read_as_the_codec_does(
    topics: list[tuple[bytes, list[Any]]],
) -> None:
    declared = joined(encode_response(9, FETCH, VERSION, declared_answer(7, topics)))
    for kind in KINDS:
        module = load("replica_fetch", kind)
        assert written(module, topics) == declared
        assert check_answer(module, declared[4:])


def ordinary_answers() -> list[bytes]:
    few = [(bytes(16), [(0, 40, 2, b"records"), (1, 40, 2, b"")])]
    many = [*few, (bytes(range(16)), [(7, 1, 0, bytes(200))])]
    return [written(compiled_or_not, topics)[4:] for topics in ([], few, many)]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_answers_are_left_to_the_codec_or_read_as_it_reads_them(kind: str) -> None:
    module = load("replica_fetch", kind)
    outcomes = [
        check_answer(module, damaged)
        for number, frame in enumerate(ordinary_answers())
        for damaged in mutations(frame, number)
    ]
    assert True in outcomes
    assert False in outcomes


def test_compiled_and_interpreted_say_the_same_of_every_damaged_answer() -> None:
    kinds = [load("replica_fetch", kind) for kind in KINDS]
    for number, frame in enumerate(ordinary_answers()):
        for damaged in mutations(frame, 1_000 + number):
            first, *others = [kind.read_answer(memoryview(damaged)) for kind in kinds]
            assert all(other == first for other in others)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        {"error_code": 6},
        {"diverging_epoch": DivergingEpoch(epoch=1, end_offset=2)},
        {"aborted_transactions": ()},
        {"aborted_transactions": (AbortedTransaction(producer_id=1, first_offset=2),)},
    ],
    ids=["error", "diverging", "none aborted", "aborted"],
)
def test_an_answer_with_another_partition_is_left_to_the_codec(
    kind: str, change: dict[str, Any]
) -> None:
    answer = declared_answer(7, [(bytes(16), [(0, 40, 2, b"records")])])
    for name, value in change.items():
        setattr(answer.responses[0].partitions[0], name, value)
    frame = joined(encode_response(9, FETCH, VERSION, answer))[4:]
    assert load("replica_fetch", kind).read_answer(memoryview(frame)) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        {"error_code": 71},
        {"throttle_time_ms": 5},
        {"node_endpoints": (NodeEndpoint(node_id=1, host="a", port=2),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_answer_that_says_more_is_left_to_the_codec(kind: str, change: dict[str, Any]) -> None:
    answer = declared_answer(7, [])
    for name, value in change.items():
        setattr(answer, name, value)
    frame = joined(encode_response(9, FETCH, VERSION, answer))[4:]
    assert load("replica_fetch", kind).read_answer(memoryview(frame)) is None


def test_the_version_is_the_latest_that_is_declared() -> None:
    assert FETCH.versions[1] == VERSION
