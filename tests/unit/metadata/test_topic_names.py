"""Legal and illegal topic names."""

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.records import InvalidRecord, Topic, check
from ottla.metadata.topic_names import (
    check_topic_name,
    is_internal,
    metric_name,
    missing_topic_code,
)
from tests.support.metadata.sample_records import topic_id

LEGAL = ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"]
IMPOSSIBLE = ["", ".", "..", "bad name!", "ä", "a/b", "a\n", "x" * 250]
RESERVED = ["__cluster_metadata", "__ottla_metadata"]


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_name_is_accepted(name: str) -> None:
    check_topic_name(name)
    check(Topic(name, topic_id(1)))

    assert missing_topic_code(name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", IMPOSSIBLE + RESERVED)
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(PeerError) as refused:
        check_topic_name(name)

    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert missing_topic_code(name) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_illegal_name_is_an_invalid_record_too(name: str) -> None:
    with pytest.raises(InvalidRecord):
        check(Topic(name, topic_id(1)))


def test_a_very_long_name_is_not_repeated_whole() -> None:
    with pytest.raises(PeerError) as refused:
        check_topic_name("x" * 30_000)

    assert len(str(refused.value)) < 500


def test_names_that_differ_only_in_dots_and_underscores_collide_in_metrics() -> None:
    assert metric_name("a.b_c") == metric_name("a_b.c")
    assert len({metric_name(name) for name in ("a.b", "a-b", "ab", "a.c")}) == 4


def test_the_coordinators_topics_are_internal_and_no_others() -> None:
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("__mine")
