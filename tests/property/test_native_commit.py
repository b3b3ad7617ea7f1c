"""Native code parses and answers commits exactly as the declared codec does.

Inputs derive from recorded frames and seeds, so failures are reproducible.
"""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native import commit as native_commit
from ottla.protocol.exchange import decode_request, encode_request, encode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    Partition,
    PartitionResult,
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

OFFSET_COMMIT = APIS[8]


def declared(frame: bytes) -> Any:
    """A frame decoded by the codec, in the form of the native parser."""
    header, _, message = decode_request(frame)
    version = header.request_api_version
    topics = [
        (
            topic.topic_id if version >= native_commit.TOPIC_IDS_SINCE else topic.name,
            [
                (
                    *(each.partition_index, each.committed_offset),
                    *(each.committed_leader_epoch, each.committed_metadata),
                )
                for each in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    assert message.retention_time_ms == -1
    return (
        *(version, header.correlation_id, header.client_id, message.group_id),
        *(message.generation_id_or_member_epoch, message.member_id, message.group_instance_id),
        topics,
    )


def check(kind: ModuleType, frame: bytes) -> bool:
    """Whether a frame is ordinary; if so, both parsers must agree."""
    read = kind.read(memoryview(frame))
    if read is None:
        return False
    assert read == declared(frame)
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_commits_are_read_as_the_codec_reads_them(kind: str) -> None:
    outcomes = [check(load("commit", kind), frame) for frame in recorded_frames(OFFSET_COMMIT)]
    assert outcomes.count(True) > len(outcomes) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_commits_are_left_to_the_codec_or_read_as_it_reads_them(kind: str) -> None:
    module = load("commit", kind)
    outcomes = [
        check(module, damaged)
        for number, frame in enumerate(recorded_frames(OFFSET_COMMIT))
        for damaged in mutations(frame, number)
    ]
    assert True in outcomes
    assert False in outcomes


def test_compiled_and_interpreted_say_the_same_of_every_damaged_frame() -> None:
    kinds = [load("commit", kind) for kind in KINDS]
    for number, frame in enumerate(recorded_frames(OFFSET_COMMIT)):
        for damaged in mutations(frame, 1_000 + number):
            first, *others = [kind.read(memoryview(damaged)) for kind in kinds]
            assert all(other == first for other in others)


def test_nothing_but_an_ordinary_commit_is_read() -> None:
    others = frames_of_others(OFFSET_COMMIT)
    assert others
    for frame in others:
        assert native_commit.read(memoryview(frame)) is None


def test_the_versions_are_those_that_are_declared() -> None:
    assert OFFSET_COMMIT.versions == (native_commit.VERSION_MIN, native_commit.VERSION_MAX)


# Requests of any shape, and their answers

asked_partitions = st.builds(
    Partition,
    partition_index=int32s,
    committed_offset=st.integers(-(2**63), 2**63 - 1),
    committed_leader_epoch=int32s,
    committed_metadata=st.none() | st.text(max_size=200),
)


def topic(version: int, name: str, partitions: list[Partition]) -> Topic:
    if version >= native_commit.TOPIC_IDS_SINCE:
        topic_id = Uuid(name.encode()[:16].ljust(16, b"."))
        return Topic(topic_id=topic_id, partitions=tuple(partitions))
    return Topic(name=name, partitions=tuple(partitions))


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    version=st.integers(*OFFSET_COMMIT.versions),
    client_id=st.none() | names,
    group_and_member=st.tuples(names, st.text(max_size=200)),
    generation=int32s,
    instance_id=st.none() | names,
    asked=st.lists(
        st.tuples(names, st.lists(asked_partitions, min_size=1, max_size=3)),
        min_size=1,
        max_size=3,
    ),
    correlation_id=int32s,
    code=st.integers(-1, 2**15 - 1),
    throttle_time_ms=st.integers(0, 2**31 - 1),
)
def test_any_ordinary_commit_is_read_and_answered(
    version: int,
    client_id: str | None,
    group_and_member: tuple[str, str],
    generation: int,
    instance_id: str | None,
    asked: list[tuple[str, list[Partition]]],
    correlation_id: int,
    code: int,
    throttle_time_ms: int,
) -> None:
    topics = tuple(topic(version, name, partitions) for name, partitions in asked)
    request = OffsetCommitRequest(
        group_id=group_and_member[0],
        generation_id_or_member_epoch=generation,
        member_id=group_and_member[1],
        group_instance_id=instance_id if version >= native_commit.INSTANCES_SINCE else None,
        topics=topics,
    )
    frame = joined(encode_request(correlation_id, OFFSET_COMMIT, version, request, client_id))[4:]
    # Each has its own, the first of them none.
    codes = [code * number % 2**15 for number in range(sum(len(each) for _, each in asked))]
    for kind in KINDS:
        module = load("commit", kind)
        assert check(module, frame)
        read = module.read(memoryview(frame))
        answered = module.answer(version, correlation_id, read[-1], codes, throttle_time_ms)
        assert bytes(answered) == declared_answer(
            version, correlation_id, topics, codes, throttle_time_ms
        )


def declared_answer(
    version: int,
    correlation_id: int,
    topics: tuple[Topic, ...],
    codes: list[int],
    throttle_time_ms: int,
) -> bytes:
    coming = iter(codes)
    response = OffsetCommitResponse(
        throttle_time_ms=throttle_time_ms,
        topics=tuple(
            TopicResult(
                name=each.name,
                topic_id=each.topic_id,
                partitions=tuple(
                    PartitionResult(
                        partition_index=partition.partition_index, error_code=next(coming)
                    )
                    for partition in each.partitions
                ),
            )
            for each in topics
        ),
    )
    return joined(encode_response(correlation_id, OFFSET_COMMIT, version, response))
