"""The members of a classic group, their leader, and the protocols that all of them support."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from ottla.coordinators.group.classic.member import ClassicGroupMember
from ottla.errors import ErrorCode, PeerError


class Roster:
    """Members by id, in the order of their joins; static members also by instance id."""

    __slots__ = ("_by_id", "_by_instance", "_supporters", "leader")

    def __init__(self) -> None:
        self.leader: str | None = None
        self._by_id: dict[str, ClassicGroupMember] = {}
        self._by_instance: dict[str, str] = {}
        # How many members support each protocol.
        self._supporters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ClassicGroupMember]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> ClassicGroupMember:
        return self._by_id[member_id]

    def get(self, member_id: str) -> ClassicGroupMember | None:
        return self._by_id.get(member_id)

    def instance(self, instance_id: str) -> ClassicGroupMember | None:
        """The static member with this instance id."""
        member_id = self._by_instance.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def check(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """The member with this id. PeerError if it is unknown, or fenced by its instance id."""
        if instance_id is not None:
            holder = self._by_instance.get(instance_id)
            if holder is None:
                raise PeerError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"nobody here holds instance id {instance_id}"
                )
            if holder != member_id:
                raise PeerError(
                    ErrorCode.FENCED_INSTANCE_ID, f"instance id {instance_id} is held by {holder}"
                )
        member = self._by_id.get(member_id)
        if member is None:
            raise PeerError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member")
        return member

    def add(self, member: ClassicGroupMember) -> None:
        """Adds a member; the first one becomes the leader."""
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member.member_id
        self._count(member.protocol_names)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """One less; if it led, the one that is longest here leads."""
        member = self._by_id.pop(member_id)
        if member.instance_id is not None:
            del self._by_instance[member.instance_id]
        self._discount(member.protocol_names)
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)

    def replace(self, members: Iterable[ClassicGroupMember], leader: str | None) -> None:
        """Replaces all members and the leader."""
        self._by_id.clear()
        self._by_instance.clear()
        self._supporters.clear()
        self.leader = leader
        for member in members:
            self.add(member)

    def rename(self, member: ClassicGroupMember, member_id: str) -> None:
        """Gives a static member a new id; it keeps its place in the order and its leadership."""
        old_id = member.member_id
        member.member_id = member_id
        # Rebuilt to keep the order.
        self._by_id = {each.member_id: each for each in self._by_id.values()}
        if member.instance_id is not None:
            self._by_instance[member.instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id

    def recount(self, member: ClassicGroupMember, before: Collection[str]) -> None:
        """A member's protocols have changed from `before`."""
        self._discount(before)
        self._count(member.protocol_names)

    def elect(self, candidates: Collection[str]) -> bool:
        """Elects the first candidate unless the leader is one; False if there is no candidate."""
        if self.leader in candidates:
            return True
        elected = next((member_id for member_id in self._by_id if member_id in candidates), None)
        if elected is None:
            return False
        self.leader = elected
        return True

    def all_support_one_of(self, names: Iterable[str]) -> bool:
        """Whether all members support one of these protocols."""
        return any(self._supporters[name] == len(self._by_id) for name in names)

    def chosen_protocol(self) -> str:
        """The protocol with most votes among those that all members support.

        Of two with equal votes, the one that the oldest member voted for.
        """
        count = len(self._by_id)
        candidates = frozenset(
            name for name, supporters in self._supporters.items() if supporters == count
        )
        votes = Counter(member.vote(candidates) for member in self._by_id.values())
        return max(votes, key=lambda name: votes[name])

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self._by_id.values()), default=0)

    def _count(self, names: Iterable[str]) -> None:
        for name in names:
            self._supporters[name] += 1

    def _discount(self, names: Iterable[str]) -> None:
        for name in names:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]
