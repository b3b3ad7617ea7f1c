"""Native code parses and answers produce requests exactly as the declared codec does.

Inputs derive from recorded frames and seeds, so failures are reproducible.
"""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native import produce as native_produce
from ottla.protocol.batch import BatchHeader, Record, build, read_header
from ottla.protocol.compression import Codec
from ottla.protocol.exchange import decode_request, encode_request, encode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.produce import (
    Partition,
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    Topic,
    TopicResult,
)
from ottla.protocol.primitives import Uuid
from tests.support.native_modules import KINDS, load
from tests.support.request_frames import (
    frames_of_others,
    int32s,
    joined,
    mutations,
    names,
    recorded_frames,
)

PRODUCE = APIS[0]


def declared(frame: bytes) -> Any:
    """A frame decoded by the codec, in the form of the native parser."""
    header, _, message = decode_request(frame)
    version = header.request_api_version
    topics = []
    for topic in message.topic_data:
        key = topic.topic_id if version >= native_produce.TOPIC_IDS_SINCE else topic.name
        topics.append((key, [(each.index, bytes(each.records)) for each in topic.partition_data]))
    return (
        *(version, header.correlation_id, header.client_id),
        *(message.acks, message.timeout_ms, topics, message.transactional_id),
    )


def as_declared(read: Any, frame: bytes) -> Any:
    topics = [
        (key, [(index, frame[begin:end]) for index, begin, end, _ in batches])
        for key, batches in read[5]
    ]
    return (*read[:5], topics, read[6])


def check(kind: ModuleType, frame: bytes) -> bool:
    """Whether a frame is ordinary; if so, both parsers must agree."""
    read = kind.read(memoryview(frame))
    if read is None:
        return False
    assert as_declared(read, frame) == declared(frame)
    for _, batches in read[5]:
        for _, begin, _, fields in batches:
            assert BatchHeader._make(fields) == read_header(frame, begin)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_produces_are_read_as_the_codec_reads_them(kind: str) -> None:
    outcomes = [check(load("produce", kind), frame) for frame in recorded_frames(PRODUCE)]
    assert outcomes.count(True) > len(outcomes) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_produces_are_left_to_the_codec_or_read_as_it_reads_them(kind: str) -> None:
    module = load("produce", kind)
    outcomes = [
        check(module, damaged)
        for number, frame in enumerate(recorded_frames(PRODUCE))
        if len(frame) < 4096
        for damaged in mutations(frame, number)
    ]
    assert True in outcomes
    assert False in outcomes


def test_compiled_and_interpreted_say_the_same_of_every_damaged_frame() -> None:
    kinds = [load("produce", kind) for kind in KINDS]
    for number, frame in enumerate(recorded_frames(PRODUCE)):
        if len(frame) < 4096:
            for damaged in mutations(frame, 1_000 + number):
                first, *others = [kind.read(memoryview(damaged)) for kind in kinds]
                assert all(other == first for other in others)


def test_nothing_but_an_ordinary_produce_is_read() -> None:
    others = frames_of_others(PRODUCE)
    assert others
    for frame in others:
        assert native_produce.read(memoryview(frame)) is None


def test_the_versions_are_those_that_are_declared() -> None:
    assert PRODUCE.versions == (native_produce.VERSION_MIN, native_produce.VERSION_MAX)


# Requests of any shape, and their answers

batches = st.builds(
    lambda values, codec, producer_id, transactional: build(
        [Record(offset, 5, None, value) for offset, value in enumerate(values)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 3,
        base_sequence=-1 if producer_id < 0 else 9,
        transactional=transactional,
    ),
    st.lists(st.binary(max_size=40), min_size=1, max_size=4),
    st.sampled_from(Codec),
    st.sampled_from((-1, 0, 7, 2**62)),
    st.booleans(),
)
offsets = st.integers(-1, 2**63 - 1)


def topic(version: int, name: str, asked: list[Partition]) -> Topic:
    if version >= native_produce.TOPIC_IDS_SINCE:
        topic_id = Uuid(name.encode()[:16].ljust(16, b"."))
        return Topic(topic_id=topic_id, partition_data=tuple(asked))
    return Topic(name=name, partition_data=tuple(asked))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    version=st.integers(*PRODUCE.versions),
    acks=st.integers(-1, 1),
    client_id=st.none() | names,
    transactional_id=st.none() | names | st.just(""),
    asked=st.lists(
        st.tuples(
            names, st.lists(st.tuples(st.integers(0, 2**31 - 1), batches), min_size=1, max_size=3)
        ),
        min_size=1,
        max_size=3,
    ),
    outcome=st.tuples(offsets, offsets),
    correlation_id=int32s,
    throttle_time_ms=st.integers(0, 2**31 - 1),
)
def test_any_ordinary_produce_is_read_and_answered(
    version: int,
    acks: int,
    client_id: str | None,
    transactional_id: str | None,
    asked: list[tuple[str, list[tuple[int, bytearray]]]],
    outcome: tuple[int, int],
    correlation_id: int,
    throttle_time_ms: int,
) -> None:
    topics = tuple(
        topic(version, name, [Partition(index=index, records=each) for index, each in parts])
        for name, parts in asked
    )
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=77, topic_data=topics
    )
    frame = joined(encode_request(correlation_id, PRODUCE, version, request, client_id))[4:]
    for kind in KINDS:
        module = load("produce", kind)
        assert check(module, frame)
        read = module.read(memoryview(frame))
        outcomes = [outcome for _, each in read[5] for _ in each]
        answered = module.answer(version, correlation_id, read[5], outcomes, throttle_time_ms)
        assert bytes(answered) == declared_answer(
            version, correlation_id, topics, outcome, throttle_time_ms
        )


def declared_answer(
    version: int,
    correlation_id: int,
    topics: tuple[Topic, ...],
    outcome: tuple[int, int],
    throttle_time_ms: int,
) -> bytes:
    response = ProduceResponse(
        throttle_time_ms=throttle_time_ms,
        responses=tuple(
            TopicResult(
                name=each.name,
                topic_id=each.topic_id,
                partition_responses=tuple(
                    PartitionResult(
                        index=partition.index,
                        error_code=0,
                        base_offset=outcome[0],
                        log_start_offset=outcome[1],
                    )
                    for partition in each.partition_data
                ),
            )
            for each in topics
        ),
    )
    return joined(encode_response(correlation_id, PRODUCE, version, response))
