"""When to ask again, and when to stop. Does no I/O."""

from ottla.client.errors import ClientError, ConnectionLost, Refused, TimedOut, Unreachable
from ottla.client.options import ClientOptions
from ottla.errors import ErrorCode
from ottla.seams.entropy import Entropy

_NOT_THERE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
# A pause is up to a fifth shorter or longer, so that many who failed together do not return so.
_JITTER_PERCENT = 20


def is_passing(error: ClientError) -> bool:
    """Whether the same question may be answered a moment later, perhaps by somebody else."""
    if isinstance(error, Refused):
        return error.is_retriable
    return isinstance(error, ConnectionLost | Unreachable | TimedOut)


def patience_ms(error: ClientError, options: ClientOptions) -> int:
    """For how long such an error is worth waiting."""
    if isinstance(error, Refused) and error.code in _NOT_THERE:
        return options.unknown_topic_grace_ms
    return options.default_api_timeout_ms


class Backoff:
    """Pauses that double from one failure to the next."""

    __slots__ = ("_entropy", "_failures", "_options")

    def __init__(self, options: ClientOptions, entropy: Entropy) -> None:
        self._options = options
        self._entropy = entropy
        self._failures = 0

    def pause_after(self, error: ClientError, waited_ms: int) -> int | None:
        """For how many ms to wait before asking again; None if that is not worth it any more."""
        pause_ms = self._next_pause_ms()
        may_wait = waited_ms + pause_ms <= patience_ms(error, self._options)
        return pause_ms if may_wait and is_passing(error) else None

    def _next_pause_ms(self) -> int:
        most = self._options.retry_backoff_max_ms
        # Beyond this many doublings any pause is the longest one.
        pause_ms = min(most, self._options.retry_backoff_ms << min(self._failures, 16))
        self._failures += 1
        jitter = self._entropy.below(2 * _JITTER_PERCENT + 1) - _JITTER_PERCENT
        return pause_ms + pause_ms * jitter // 100
