"""Guards appends that wait for the verification of their transaction (KIP-890).

The coordinator's answer is true when it is given. If a marker ends the transaction before the
append, the append would begin a transaction that no marker ends. So a leader begins a guard before
it asks the coordinator, a marker invalidates the guard, and the append needs a valid guard.
"""

from ottla.errors import ErrorCode, PeerError

# A guard exists only while a produce request waits for the coordinator. This bounds the memory that
# clients with forged producer ids can take, per partition: about 2 MB.
GUARDS_MAX = 10_000


class VerificationGuard:
    """The requests of one producer that wait for verification in one partition."""

    __slots__ = ("leader_epoch", "producer_id", "requests")

    def __init__(self, producer_id: int, leader_epoch: int) -> None:
        self.producer_id = producer_id
        # The append must be of this leader epoch: a leader in between may have written a marker.
        self.leader_epoch = leader_epoch
        self.requests = 0


class VerificationGuards:
    """The guards of one replica, by producer id. Each `begin` is followed by one `end`."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def begin(self, producer_id: int, leader_epoch: int) -> VerificationGuard:
        """The producer's guard, valid until a marker. PeerError if there are too many guards."""
        guard = self._guards.get(producer_id)
        if guard is None or guard.leader_epoch != leader_epoch:
            if guard is None and len(self._guards) >= GUARDS_MAX:
                # Clients retry this error.
                raise PeerError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{GUARDS_MAX} producers wait for the verification of their transaction",
                )
            guard = self._guards[producer_id] = VerificationGuard(producer_id, leader_epoch)
        guard.requests += 1
        return guard

    def is_valid(self, guard: VerificationGuard) -> bool:
        """Whether no marker of the producer was written since the guard began."""
        return self._guards.get(guard.producer_id) is guard

    def invalidate(self, producer_id: int) -> None:
        """A marker of this producer was written."""
        self._guards.pop(producer_id, None)

    def end(self, guard: VerificationGuard) -> None:
        """A request of the guard was appended or refused."""
        guard.requests -= 1
        if guard.requests == 0 and self.is_valid(guard):
            del self._guards[guard.producer_id]
