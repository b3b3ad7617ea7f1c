"""What transactional producers asked for and were told, and what consumers saw of it.

All or nothing: a transaction is seen whole by read_committed consumers, or not at all. It may be
seen from the moment at which its commit was asked for. What was seen once stays committed, a loss
of power included: the coordinator's decision is durable before its first marker is written.

A moment is a number that grows with every event.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from ottla.protocol.producer_epoch import NO_PRODUCER, ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.history import PartitionHistory, Sent
from tests.sim.seams.clock import SimClock


class Outcome(Enum):
    """What its producer knows of a transaction."""

    OPEN = "whose commit nobody has asked for"
    UNKNOWN = "whose commit was asked for and not acknowledged"
    COMMITTED = "whose commit was acknowledged"
    ABORTED = "that is aborted"


# The life of no broker.
IN_PROGRESS = -1
MAY_BE_SEEN = (Outcome.UNKNOWN, Outcome.COMMITTED)


@dataclass(slots=True, eq=False)
class Incarnation:
    """A producer from its InitProducerId until it is fenced or has crashed."""

    name: str
    transactional_id: str
    timeout_ms: int
    identity: ProducerIdAndEpoch = NO_PRODUCER
    # When a later producer with the same transactional id got its epoch.
    fenced: int | None = None
    # Its last InitProducerId: when it was sent, when it was answered, and in which lives of the
    # broker.
    asked: int = 0
    asked_life: int = 0
    told: int | None = None
    told_life: int = 0
    # The broker's last life in which an InitProducerId had no answer: it may take effect later.
    lost_life: int = 0
    # How many it has begun.
    transactions: int = 0

    def may_fence(self, other: "Incarnation") -> bool:
        """Whether an InitProducerId of this one may be later than the last one of another."""
        return self.told is None or self.told > other.asked or self.lost_life >= other.asked_life


@dataclass(slots=True, eq=False)
class Transaction:
    """`values` are those that were acknowledged, by partition; `sent` counts all."""

    number: int
    incarnation: Incarnation
    begun_ms: float
    jumps_before: int
    outcome: Outcome = Outcome.OPEN
    committed: int | None = None
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    seen: str = ""
    # When it wrote to the topic that is deleted now and then: how often it had been deleted.
    deletions_before: int | None = None

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.incarnation.name}"

    def see(self, where: str) -> None:
        """A consumer saw a part of it."""
        assert self.outcome in MAY_BE_SEEN, f"{where} shows {self}, {self.outcome.value}"
        self.seen = self.seen or where

    def ask_to_commit(self) -> None:
        if self.outcome is Outcome.OPEN:
            self.outcome = Outcome.UNKNOWN

    def abort(self, why: str) -> None:
        assert not self.seen, f"{self} is aborted ({why}), and was seen: {self.seen}"
        self.outcome = Outcome.ABORTED


@dataclass(slots=True, eq=False)
class OffsetCommit:
    """A committed offset; no two are equal. It took effect between `sent` and `settled`, if at all.

    `settled` is None while a request may still take effect: one that is repeated, or that had no
    answer in a `life` of the broker that goes on.
    """

    offset: int
    sent: int
    life: int
    transaction: Transaction | None = None
    acknowledged: int | None = None
    settled: int | None = None

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.transaction or 'a plain commit'}"

    def takes_effect_before(self, moment: int, *, is_stable: bool) -> bool:
        """Whether a read that began at this moment must show it, or a later one.

        A transactional commit takes effect with its marker, which may come after the answer to
        EndTxn. Until then the offset is not stable.
        """
        if self.acknowledged is None or self.acknowledged > moment:
            return False
        if self.transaction is None:
            return True
        committed = self.transaction.committed
        return is_stable and committed is not None and committed < moment


class GroupHistory:
    """The commits of one partition's offset by one group."""

    def __init__(self) -> None:
        self.commits: dict[int, OffsetCommit] = {}

    def check(self, found: int, asked: int, *, is_stable: bool) -> None:
        """A read that was sent at the moment `asked` has found this offset."""
        commit = self.commits.get(found)
        assert commit is not None or found == -1, f"offset {found} was never committed"
        if commit is not None and commit.transaction is not None:
            commit.transaction.see(f"committed offset {found}")
        for other in self.commits.values():
            if other is commit or not other.takes_effect_before(asked, is_stable=is_stable):
                continue
            is_overtaken = commit is None or (
                commit.settled is not None and commit.settled < other.sent
            )
            assert not is_overtaken, f"{commit or 'no offset'} is there, after {other}"


class CommittedView:
    """One partition as read_committed consumers see it: a value or nothing at each offset."""

    def __init__(self, partition: PartitionHistory) -> None:
        self.partition = partition
        self._seen: dict[int, bytes | None] = {}

    def see(self, offset: int, value: bytes | None) -> None:
        """None: a consumer went past this offset and was shown nothing."""
        before = self._seen.setdefault(offset, value)
        assert before == value, (
            f"{self.partition.name}: read_committed was shown {before!r} at {offset}, now {value!r}"
        )

    def lose_power(self) -> None:
        """Where nobody has vouched for the log, something else may come."""
        end_offset = self.partition.acknowledged_end
        self._seen = {offset: value for offset, value in self._seen.items() if offset < end_offset}


class TransactionalHistory:
    """`counts` says what was met. If `ids_expire`, a producer may find its id gone at any time.

    A coordinator that `is_outdated` may not know a producer's latest epoch, and refuse it.
    """

    def __init__(
        self,
        clock: SimClock,
        *,
        ids_expire: bool = False,
        is_outdated: Callable[[], bool] = lambda: False,
    ) -> None:
        self.ids_expire = ids_expire
        self._is_outdated = is_outdated
        self.transactions: list[Transaction] = []
        self.views: dict[TopicPartition, CommittedView] = {}
        self.groups: dict[TopicPartition, GroupHistory] = {}
        self.counts: Counter[str] = Counter()
        self.clock_jumps = 0
        # Of a topic in which there may be transactions.
        self.deletions = 0
        self._clock = clock
        self._incarnations: list[Incarnation] = []
        self._given: dict[ProducerIdAndEpoch, Incarnation] = {}
        self._of_value: dict[bytes, Transaction] = {}
        self._sent: dict[bytes, int] = {}
        self._moment = 0
        self._next_offset = 0

    def moment(self) -> int:
        self._moment += 1
        return self._moment

    # Producers

    def incarnation(self, name: str, transactional_id: str, timeout_ms: int) -> Incarnation:
        """A producer is about to ask for an id."""
        made = Incarnation(name, transactional_id, timeout_ms)
        self._incarnations.append(made)
        return made

    def identify(self, incarnation: Incarnation, identity: ProducerIdAndEpoch) -> None:
        """A producer was told its id and epoch."""
        owner = self._given.setdefault(identity, incarnation)
        assert owner is incarnation, f"{incarnation.name} and {owner.name} are both {identity}"
        incarnation.identity = identity
        rivals = [
            other
            for other in self._incarnations
            if other is not incarnation
            and other.identity != NO_PRODUCER
            and other.transactional_id == incarnation.transactional_id
        ]
        # Ids and epochs grow. An answer that is late may be of one that is fenced already.
        if any(other.identity > identity for other in rivals):
            incarnation.fenced = incarnation.fenced or self.moment()
            return
        # An id that has expired is given to whoever asks next.
        assert incarnation.fenced is None or self.ids_expire, (
            f"{incarnation.name} was fenced, and is {identity} now"
        )
        incarnation.fenced = None
        for other in rivals:
            other.fenced = other.fenced or self.moment()

    def may_be_fenced(self, transaction: Transaction) -> bool:
        """Whether there is a reason for a fence: a rival, a timeout, a clock that jumped, an
        InitProducerId that arrives late."""
        incarnation = transaction.incarnation
        if (
            any(
                other.may_fence(incarnation)
                for other in self._incarnations
                if other is not incarnation
                and other.transactional_id == incarnation.transactional_id
            )
            or self._now_ms - transaction.begun_ms >= incarnation.timeout_ms
            or self.clock_jumps > transaction.jumps_before
        ):
            return True
        if self._is_outdated():
            self.counts["fenced by a deposed coordinator"] += 1
            return True
        # An InitProducerId of its own, which it has repeated.
        self.counts["fenced by nobody else"] += 1
        return incarnation.lost_life >= incarnation.told_life

    # Transactions

    def begin(self, incarnation: Incarnation) -> Transaction:
        begun = Transaction(len(self.transactions), incarnation, self._now_ms, self.clock_jumps)
        self.transactions.append(begun)
        incarnation.transactions += 1
        return begun

    def send(
        self, transaction: Transaction, partition: PartitionHistory | None, values: list[bytes]
    ) -> None:
        """Its producer is about to send these, whose numbers grow. None: the topic may be gone."""
        for value in values:
            number = len(self._sent)
            self._of_value[value] = transaction
            self._sent[value] = self.moment()
            if partition is not None:
                partition.send(value, Sent(transaction.incarnation.name, number, False))

    def acknowledge(
        self, transaction: Transaction, place: TopicPartition, values: list[bytes]
    ) -> None:
        for value in values:
            self._check_zombie(value)
        transaction.values.setdefault(place, []).extend(values)

    def ask_to_end(self, transaction: Transaction, *, is_committed: bool) -> None:
        """Its producer is about to send EndTxn."""
        if is_committed:
            transaction.ask_to_commit()
        before = transaction.deletions_before
        self.counts["deletions in a transaction"] += before is not None and self.deletions > before

    def commit(self, transaction: Transaction) -> None:
        """The commit was acknowledged."""
        transaction.outcome = Outcome.COMMITTED
        transaction.committed = self.moment()

    def see(self, place: TopicPartition, offset: int, value: bytes) -> None:
        """A read_committed consumer saw this value."""
        transaction = self._of_value.get(value)
        if transaction is not None:
            transaction.see(f"offset {offset} of {place}, {value[:30]!r}")
            self._check_zombie(value)

    def _check_zombie(self, value: bytes) -> None:
        """What a producer sent after it was fenced is stored nowhere."""
        incarnation = self._of_value[value].incarnation
        assert incarnation.fenced is None or self._sent[value] < incarnation.fenced, (
            f"{value[:30]!r} is stored, and was sent after {incarnation.name} was fenced"
        )

    # Offsets

    def commit_offset(
        self, place: TopicPartition, life: int, transaction: Transaction | None = None
    ) -> OffsetCommit:
        """Somebody is about to commit a new offset."""
        self._next_offset += 1
        made = OffsetCommit(self._next_offset, self.moment(), life, transaction)
        self.offsets(place).commits[made.offset] = made
        return made

    def offsets(self, place: TopicPartition) -> GroupHistory:
        return self.groups.setdefault(place, GroupHistory())

    @property
    def commits(self) -> list[OffsetCommit]:
        return [each for group in self.groups.values() for each in group.commits.values()]

    def end_life(self, life: int) -> None:
        """The broker has died: no request to it takes effect any more."""
        for commit in self.commits:
            if commit.settled is None and commit.life == life:
                commit.settled = self.moment()

    def lose_power(self) -> None:
        for view in self.views.values():
            view.lose_power()

    # In the end

    def check(
        self,
        place: TopicPartition,
        stored: Mapping[int, bytes],
        committed: Mapping[int, bytes],
        partition: PartitionHistory,
    ) -> None:
        """One partition in peace: all that is stored, and all that read_committed shows."""
        partition.check_records(stored)
        for offset, value in stored.items():
            transaction = self._of_value.get(value)
            if transaction is not None:
                self._check_zombie(value)
            if offset in committed:
                assert committed[offset] == value, f"{value!r} and {committed[offset]!r}"
            else:
                assert transaction is not None, f"{place}: {value!r} at {offset} is hidden"
        assert committed.keys() <= stored.keys(), f"{place}: read_committed shows more than all"

    def check_atomicity(self, shown: Mapping[TopicPartition, Iterable[bytes]]) -> None:
        """What read_committed shows of all partitions: each transaction is whole, or absent."""
        values = {place: set(each) for place, each in shown.items()}
        for transaction in self.transactions:
            places = [place for place in transaction.values if place in values]
            missing = [
                f"{place}: {value[:30]!r}"
                for place in places
                for value in transaction.values[place]
                if value not in values[place]
            ]
            total = sum(len(transaction.values[place]) for place in places)
            self._check_whole(transaction, total, missing)

    def _check_whole(self, transaction: Transaction, total: int, missing: list[str]) -> None:
        is_whole, is_absent = not missing, len(missing) == total
        what = f"{transaction}, {transaction.outcome.value}"
        assert is_whole or is_absent, f"{what}, is torn: {missing} of {total} are missing"
        if transaction.outcome is Outcome.COMMITTED or transaction.seen:
            assert is_whole, f"{what}, is missing (seen: {transaction.seen!r}): {missing}"
        elif transaction.outcome is Outcome.UNKNOWN and is_whole and not is_absent:
            # Seen by the auditor: its offsets must be there, too.
            self.commit(transaction)

    @property
    def totals(self) -> Counter[str]:
        """Transactions by outcome, and all else that was counted."""
        outcomes = Counter(each.outcome.name.lower() for each in self.transactions)
        totals = {
            "transactions": len(self.transactions),
            "offsets": len(self.commits),
            "unsettled offsets": sum(each.settled is None for each in self.commits),
        }
        return self.counts + outcomes + Counter(totals)

    @property
    def _now_ms(self) -> float:
        return self._clock.timeline.now_ns / 1e6
