"""A client's regular expression, matched by RE2: in time linear in the name, whatever it says.

Python's own engine can be made to run for years by a short pattern, so it never sees one.
"""

from collections.abc import Collection
from importlib import import_module
from typing import Any, Protocol

from ottla.errors import ErrorCode, PeerError

PATTERN_CHARACTERS_MAX = 4096
# Bounds what a pattern such as (a{100}){100} is compiled to.
PATTERN_MEMORY_BYTES_MAX = 1 << 20


class TopicMatcher(Protocol):
    """Finds the names that a pattern matches from end to end."""

    def __call__(self, pattern: str, names: Collection[str]) -> tuple[str, ...]:
        """Sorted. INVALID_REGULAR_EXPRESSION if the pattern is none."""
        ...


def match_topics(pattern: str, names: Collection[str]) -> tuple[str, ...]:
    """See TopicMatcher."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise invalid_pattern(pattern, f"longer than {PATTERN_CHARACTERS_MAX} characters")
    # Few groups use patterns: the others do not pay for the library.
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
    """What is answered to a pattern that is none."""
    return PeerError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern[:100]}` is not a valid regular expression: {reason}.",
    )
