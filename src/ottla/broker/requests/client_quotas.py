"""What clients have used of their quotas: a token bucket for each quota and client. No I/O."""

from collections.abc import Hashable
from typing import TypeVar

from ottla.metadata.quotas import Entity, Quotas, effective_quota

# An idle client may save up this much of its rate: as much as Kafka's eleven windows of a second.
BURST_S = 11
# The oldest are forgotten: a client that changes its id with every request would use up the memory.
CLIENTS_MAX = 10_000

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class TokenBucket:
    """A rate in bytes per second. It may be overdrawn: a request has arrived before it counts."""

    __slots__ = ("_level", "_rate", "_since_ns")

    def __init__(self, rate: float, now_ns: int) -> None:
        self._rate = rate
        self._level = rate * BURST_S
        self._since_ns = now_ns

    @property
    def burst_bytes(self) -> int:
        """All that the bucket can hold."""
        return max(1, int(self._rate * BURST_S))

    def spend(self, size_bytes: int, now_ns: int) -> float:
        """Takes this much out; the seconds until nothing is overdrawn."""
        gained = (now_ns - self._since_ns) / 1e9 * self._rate
        self._since_ns = now_ns
        self._level = min(self._level + gained, self._rate * BURST_S) - size_bytes
        return max(0.0, -self._level / self._rate)


class ClientQuotas:
    """The buckets of all clients that have a quota."""

    def __init__(self) -> None:
        self._quotas: Quotas = {}
        # By key, user and client id; None for a client without a quota.
        self._of_client: dict[tuple[str, str, str | None], TokenBucket | None] = {}
        self._shared: dict[tuple[str, Entity], TokenBucket] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no client has a quota."""
        return not self._quotas

    def load(self, quotas: Quotas) -> None:
        """Takes these quotas. All buckets are full then."""
        self._quotas = {entity: dict(values) for entity, values in quotas.items() if values}
        self._of_client.clear()
        self._shared.clear()

    def find(self, key: str, user: str, client_id: str | None, now_ns: int) -> TokenBucket | None:
        """The client's bucket for a quota with this key; None without such a quota."""
        client = (key, user, client_id)
        try:
            return self._of_client[client]
        except KeyError:
            pass
        quota = effective_quota(self._quotas, key, user, client_id)
        bucket = None
        if quota is not None:
            shared = (key, quota.shared_by)
            bucket = self._shared.get(shared) or TokenBucket(quota.rate, now_ns)
            _put(self._shared, shared, bucket)
        _put(self._of_client, client, bucket)
        return bucket


def _put(into: dict[_K, _V], key: _K, value: _V) -> None:
    if key not in into and len(into) >= CLIENTS_MAX:
        del into[next(iter(into))]
    into[key] = value
