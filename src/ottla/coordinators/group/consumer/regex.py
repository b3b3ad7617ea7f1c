"""Matches clients' regular expressions with RE2, in time linear in the length of the name.

Python's own engine is not used: a short pattern can make it run for years.
"""

from collections.abc import Collection
from importlib import import_module
from typing import Any, Protocol

from ottla.errors import ErrorCode, PeerError

PATTERN_CHARACTERS_MAX = 4096
# Bounds the compiled form of a pattern such as (a{100}){100}.
PATTERN_MEMORY_BYTES_MAX = 1 << 20


class TopicMatcher(Protocol):
    """Finds the names that a pattern matches completely."""

    def __call__(self, pattern: str, names: Collection[str]) -> tuple[str, ...]:
        """The names, sorted. INVALID_REGULAR_EXPRESSION if the pattern is invalid."""
        ...


def match_topics(pattern: str, names: Collection[str]) -> tuple[str, ...]:
    """See TopicMatcher."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise invalid_pattern(pattern, f"longer than {PATTERN_CHARACTERS_MAX} characters")
    # Imported on first use: few groups use patterns.
    re2: Any = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    try:
        matches = re2.compile(pattern, options).fullmatch
    except re2.error as error:
        reason = error.args[0]
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise invalid_pattern(pattern, reason) from None
    return tuple(sorted(name for name in names if matches(name)))


def invalid_pattern(pattern: str, reason: str) -> PeerError:
    """The refusal of an invalid pattern."""
    return PeerError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern[:100]}` is not a valid regular expression: {reason}.",
    )
