"""The transaction coordinator under random requests, timeouts, markers and restarts."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.coordinators.txn.machine import TransactionMachine
from ottla.coordinators.txn.states import IDLE, PREPARED, TransactionState
from ottla.coordinators.txn.transaction import Transaction
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.producer_epoch import PRODUCER_EPOCH_MAX, ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition
from tests.support.coordinators.transactions import Stage

NAMES = ("a", "b")
PARTITIONS = [TopicPartition("t", index) for index in range(4)]
# All codes that a transactional request may get from its coordinator.
CODES = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.PRODUCER_FENCED,
}

names = st.sampled_from(NAMES)
versions = st.sampled_from([0, 2])
kinds = st.sampled_from(list(MarkerKind))
some_partitions = st.sets(st.sampled_from(PARTITIONS), min_size=1)


class Coordinator(RuleBasedStateMachine):
    """Two transactional ids and whoever has ever been their producer."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.producers: dict[str, list[ProducerIdAndEpoch]] = {name: [] for name in NAMES}
        # The highest epoch of each producer id: it never falls.
        self.epochs: dict[int, int] = {}
        # The producer of the last transaction that was begun, by transactional id.
        self.opened: dict[str, ProducerIdAndEpoch] = {}
        # Each transaction that was decided, and how: never both ways.
        self.outcomes: dict[tuple[str, int, int], MarkerKind] = {}

    def pick(self, name: str, data: st.DataObject) -> ProducerIdAndEpoch:
        """A producer of this id, most likely the current one."""
        return data.draw(st.sampled_from(self.producers[name][-3:]))

    @rule(name=names, data=st.data(), renews=st.booleans())
    def init(self, name: str, data: st.DataObject, renews: bool) -> None:
        expected = self.pick(name, data) if renews and self.producers[name] else None
        try:
            producer = self.stage.init(name, expected, timeout_ms=500)
        except PeerError as error:
            assert error.code in CODES  # noqa: PT017
            return
        assert self.stage.of(name).state is TransactionState.EMPTY
        self.producers[name].append(producer)

    @precondition(lambda self: any(self.producers.values()))
    @rule(name=names, data=st.data(), partitions=some_partitions, version=versions)
    def add(
        self, name: str, data: st.DataObject, partitions: set[TopicPartition], version: int
    ) -> None:
        if not self.producers[name]:
            return
        producer = self.pick(name, data)
        try:
            self.stage.add(producer, *partitions, name=name, client_version=version)
        except PeerError as error:
            assert error.code in CODES  # noqa: PT017
            return
        after = self.stage.of(name)
        assert (after.producer_id, after.producer_epoch) == producer
        assert after.partitions >= partitions

    @precondition(lambda self: any(self.producers.values()))
    @rule(name=names, data=st.data(), kind=kinds, version=versions)
    def end(self, name: str, data: st.DataObject, kind: MarkerKind, version: int) -> None:
        if not self.producers[name]:
            return
        producer = self.pick(name, data)
        before = self.stage.of(name)
        try:
            after = self.stage.end(producer, kind, name, version)
        except PeerError as error:
            assert error.code in CODES  # noqa: PT017
            assert self.stage.of(name) == before
            return
        if version == 2:
            self.producers[name].append(after)

    @rule()
    def write_markers(self) -> None:
        for effect in self.stage.effects:
            key = effect.transactional_id, effect.producer_id, effect.producer_epoch
            if effect.partitions:
                opened = self.opened[effect.transactional_id]
                assert effect.producer_id == opened.producer_id
                # A leader takes no marker of version 2 at the transaction's own epoch.
                assert effect.producer_epoch > opened.producer_epoch or (
                    effect.producer_epoch == opened.producer_epoch
                    and effect.transaction_version < 2
                )
                assert self.outcomes.setdefault(key, effect.kind) is effect.kind
        self.stage.write_markers()

    @rule(ms=st.integers(1, 2_000))
    def wait(self, ms: int) -> None:
        self.stage.wait(ms)

    @rule(ms=st.integers(-5_000, 5_000))
    def set_clock(self, ms: int) -> None:
        self.stage.now_ms = max(1_000_000, self.stage.now_ms + ms)

    @rule()
    def restart(self) -> None:
        prepared = {each.transactional_id for each in self.all() if each.state in PREPARED}
        self.stage.restart()
        assert {effect.transactional_id for effect in self.stage.effects} == prepared

    @rule(name=names, left=st.integers(1, 3))
    def use_up_epochs(self, name: str, left: int) -> None:
        """Many transactions later: the id is near or at the last epoch that clients get."""
        before = self.stage.machine.transactions.get(name)
        if before is None or before.state not in IDLE:
            return
        epoch = PRODUCER_EPOCH_MAX - left
        if before.producer_epoch < epoch:
            later = before._replace(producer_epoch=epoch, last_producer_epoch=-1)
            self.stage.log.append(self.stage.machine.encode(later))
            self.stage.machine.replay(later)
            self.producers[name].append(ProducerIdAndEpoch(later.producer_id, later.producer_epoch))

    def all(self) -> list[Transaction]:
        return list(self.stage.machine.transactions.values())

    @invariant()
    def live_state_equals_replayed_state(self) -> None:
        replayed: TransactionMachine = self.stage.new_machine()
        self.stage.replay_into(replayed, self.stage.log)
        assert replayed.transactions == self.stage.machine.transactions

    @invariant()
    def the_last_record_of_each_key_is_enough(self) -> None:
        compacted: TransactionMachine = self.stage.new_machine()
        self.stage.replay_into(compacted, dict(self.stage.log).items())
        assert compacted.transactions == self.stage.machine.transactions

    @invariant()
    def epochs_never_fall(self) -> None:
        for each in self.all():
            assert each.producer_epoch >= self.epochs.get(each.producer_id, 0)
            assert each.producer_epoch <= PRODUCER_EPOCH_MAX
            self.epochs[each.producer_id] = each.producer_epoch
            if each.state is TransactionState.ONGOING:
                self.opened[each.transactional_id] = ProducerIdAndEpoch(
                    each.producer_id, each.producer_epoch
                )

    @invariant()
    def an_open_transaction_has_a_timeout_and_others_have_none(self) -> None:
        for each in self.all():
            is_timed = f"timeout/{each.transactional_id}" in self.stage.timers
            assert is_timed == (each.state is TransactionState.ONGOING)

    @invariant()
    def partitions_belong_to_transactions_that_are_not_over(self) -> None:
        for each in self.all():
            if each.state in IDLE:
                assert not each.partitions
            if each.state is TransactionState.ONGOING:
                assert each.partitions


TestCoordinator = Coordinator.TestCase
