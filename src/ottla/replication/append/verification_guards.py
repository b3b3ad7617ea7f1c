"""Guards appends that wait for the verification of their transaction (KIP-890).

The coordinator's answer is true when it is given. If a marker ends the transaction before the
append, the append would begin a transaction that no marker ends. So a leader begins a guard before
it asks the coordinator, a marker invalidates the guard, and the append needs a valid guard.

A guard also keeps the lowest sequence that waited. A producer that is unknown in the partition may
begin at any sequence; if its first batch has to be retried, the next one must not overtake it.
"""

from ottla.errors import ErrorCode, PeerError

# A guard is in use while a produce request waits for the coordinator. The limit bounds the memory
# that clients with forged producer ids can take: about 2 MB per partition.
GUARDS_MAX = 10_000
# Guards of producers that will retry. The least recently used one is forgotten.
RETRIED_MAX = 1_000


class VerificationGuard:
    """The requests of one producer that wait for verification in one partition."""

    __slots__ = ("leader_epoch", "lowest_sequence", "producer_epoch", "producer_id", "requests")

    def __init__(self, producer_id: int, leader_epoch: int) -> None:
        self.producer_id = producer_id
        # The append must be of this leader epoch: a leader in between may have written a marker.
        self.leader_epoch = leader_epoch
        self.producer_epoch = -1
        # The lowest base sequence of the producer epoch.
        self.lowest_sequence = 0
        self.requests = 0


class VerificationGuards:
    """The guards of one replica, by producer id. Each `begin` is followed by one `end`."""

    __slots__ = ("_retried", "_used")

    def __init__(self) -> None:
        self._used: dict[int, VerificationGuard] = {}
        # The least recently used first.
        self._retried: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._used) + len(self._retried)

    def begin(
        self, producer_id: int, producer_epoch: int, base_sequence: int, leader_epoch: int
    ) -> VerificationGuard:
        """The producer's guard, valid until a marker. PeerError if there are too many guards."""
        guard = self._used.get(producer_id)
        if guard is None:
            if len(self._used) >= GUARDS_MAX:
                # Clients retry this error.
                raise PeerError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{GUARDS_MAX} producers wait for the verification of their transaction",
                )
            guard = self._retried.pop(producer_id, None)
        if guard is None or guard.leader_epoch != leader_epoch:
            guard = VerificationGuard(producer_id, leader_epoch)
        self._used[producer_id] = guard
        guard.requests += 1
        if producer_epoch > guard.producer_epoch:
            guard.producer_epoch, guard.lowest_sequence = producer_epoch, base_sequence
        elif producer_epoch == guard.producer_epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, base_sequence)
        return guard

    def is_valid(self, guard: VerificationGuard) -> bool:
        """Whether no marker of the producer was written since the guard began."""
        return self._used.get(guard.producer_id) is guard

    def invalidate(self, producer_id: int) -> None:
        """A marker of this producer was written."""
        self._used.pop(producer_id, None)
        self._retried.pop(producer_id, None)

    def end(self, guard: VerificationGuard, *, is_retried: bool) -> None:
        """A request was appended or refused. `is_retried`: the client will send it again."""
        guard.requests -= 1
        if guard.requests > 0 or not self.is_valid(guard):
            return
        del self._used[guard.producer_id]
        if is_retried:
            self._retried[guard.producer_id] = guard
            if len(self._retried) > RETRIED_MAX:
                del self._retried[next(iter(self._retried))]
