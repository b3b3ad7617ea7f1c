"""Clients' regular expressions."""

import pytest

from ottla.coordinators.group.consumer.regex import match_topics
from ottla.errors import ErrorCode, PeerError


def test_a_pattern_matches_whole_names() -> None:
    names = {"logs", "logs-eu", "old-logs"}
    assert match_topics("logs.*", names) == ("logs", "logs-eu")
    assert match_topics("(^logs$)", names) == ("logs",)


@pytest.mark.parametrize("pattern", ["(", "a{1000}{1000}", "(?=x)", "x" * 5_000])
def test_an_invalid_or_too_large_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PeerError) as refused:
        match_topics(pattern, ["logs"])
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "is not a valid regular expression" in str(refused.value)
