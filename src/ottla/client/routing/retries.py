"""Which errors are retried, for how long, and after which pauses. Does no I/O."""

from ottla.client.errors import ClientError, ConnectionLost, Refused, TimedOut, Unreachable
from ottla.client.options import ClientOptions
from ottla.errors import ErrorCode
from ottla.seams.entropy import Entropy

_UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
# Keeps clients that failed together from retrying together.
_JITTER_PERCENT = 20


def is_retriable(error: ClientError) -> bool:
    """Whether a retry may succeed, perhaps at another broker."""
    if isinstance(error, Refused):
        return error.is_retriable
    return isinstance(error, ConnectionLost | Unreachable | TimedOut)


def retry_timeout_ms(error: ClientError, options: ClientOptions) -> int:
    """The time for which such an error is retried."""
    if isinstance(error, Refused) and error.code in _UNKNOWN_TOPIC:
        return options.unknown_topic_grace_ms
    return options.default_api_timeout_ms


class Backoff:
    """Exponential backoff with jitter."""

    __slots__ = ("_entropy", "_failures", "_options")

    def __init__(self, options: ClientOptions, entropy: Entropy) -> None:
        self._options = options
        self._entropy = entropy
        self._failures = 0

    def pause_after(self, error: ClientError, waited_ms: int) -> int | None:
        """The pause before the next attempt in ms; None to give up."""
        pause_ms = self._next_pause_ms()
        may_wait = waited_ms + pause_ms <= retry_timeout_ms(error, self._options)
        return pause_ms if may_wait and is_retriable(error) else None

    def _next_pause_ms(self) -> int:
        most = self._options.retry_backoff_max_ms
        # 16 doublings exceed any maximum.
        pause_ms = min(most, self._options.retry_backoff_ms << min(self._failures, 16))
        self._failures += 1
        jitter = self._entropy.below(2 * _JITTER_PERCENT + 1) - _JITTER_PERCENT
        return pause_ms + pause_ms * jitter // 100
