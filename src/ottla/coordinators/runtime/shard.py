"""One partition of a coordinator's topic under one leader epoch: decide, replay, append, release.

The records of all decisions of one turn of the event loop are appended as one batch at the
beginning of the next turn, under the leader epoch in which they were decided. Later decisions of
the turn see the earlier ones. No client does: answers are given and effects are performed once the
batch is in the local log and on every in-sync replica. A shard exists for as long as its broker
leads the partition; the next leader loads its shard from the log.

Records of a transaction and transaction markers are batches of their own. They are appended at
once, behind the turn so far, and replayed after that: the log refuses a fenced producer, which is
that client's fault and changes nothing.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Never, TypeVar

from ottla.coordinators.runtime.commit_waits import CommitWaits
from ottla.coordinators.runtime.decided_batch import Row, build_batch
from ottla.coordinators.runtime.decision import Answered, Decision
from ottla.coordinators.runtime.machine import Machine
from ottla.coordinators.runtime.timers import Timers
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.producer_epoch import NO_PRODUCER, ProducerIdAndEpoch
from ottla.replication.append.appender import ACKS_ALL, Appender, AppendResult
from ottla.replication.append.flusher import Flusher
from ottla.replication.append.transaction_marker import TransactionMarker
from ottla.replication.replica import Replica
from ottla.seams.clock import Clock
from ottla.storage.log.config import UNLIMITED

# When the log cannot be written, a due timer is retried after this time.
RETRY_MS = 1_000
# The approximate limit of a batch of more than one decision.
BATCH_BYTES_MAX = 256 << 10
# The most bytes that a record needs in a batch besides its key and value.
ROW_FIELDS_BYTES = 32

MachineT = TypeVar("MachineT", bound=Machine[Any, Any])
EffectT = TypeVar("EffectT")
Seen = TypeVar("Seen")


class _Unanswered(NamedTuple):
    """Answers that wait until the log is committed up to an offset."""

    end_offset: int
    overdue_ms: int
    answers: Sequence[Answered]


class _Turn(Generic[EffectT]):
    """The decisions since the last batch: the rows of the next batch, its answers and effects."""

    __slots__ = ("answers", "effects", "rows", "size_bytes")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.size_bytes = 0
        self.answers: list[Answered] = []
        self.effects: list[EffectT] = []


class Shard(Generic[MachineT, EffectT]):
    """See the module. Answers and effects wait in the commit queue of the partition.

    `perform` starts an effect and returns; it is never called from within a decision. `schedule` is
    called with the time of the first due timer, whenever a timer was set. `on_failed` is called
    when a turn could not be appended: the machine is then ahead of the log, the shard is closed,
    and a new one has to be loaded. `spawn` starts a task that ends with the broker.
    """

    def __init__(
        self,
        replica: Replica,
        machine: MachineT,
        appender: Appender,
        flusher: Flusher,
        clock: Clock,
        *,
        commit_timeout_ms: int,
        decision_bytes_max: int,
        perform: Callable[[EffectT], None],
        schedule: Callable[[int], None],
        on_failed: Callable[["Shard[MachineT, EffectT]", PeerError], None],
        spawn: Callable[[Coroutine[Any, Any, Any], str], object],
    ) -> None:
        self.replica = replica
        self.machine = machine
        self.leader_epoch = replica.partition.leader_epoch
        self.is_loaded = False
        self.is_closed = False
        self.timers = Timers()
        self._appender = appender
        self._flusher = flusher
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._decision_bytes_max = decision_bytes_max
        self._perform = perform
        self._schedule = schedule
        self._on_failed = on_failed
        # The machine has replayed the log up to here, apart from this turn.
        self._end_offset = replica.end_offset
        self._turn = _Turn[EffectT]()
        self._tickets = itertools.count(1)
        self._waiting: dict[Hashable, asyncio.Future[object]] = {}
        self._unanswered: deque[_Unanswered] = deque()
        # Each with the offset up to which the log has to be committed.
        self._effects: deque[tuple[int, EffectT]] = deque()
        self._spawn = spawn
        # Whether a flush is under way that effects wait for.
        self._is_flushing = False
        self._commit_waits = CommitWaits(replica, self._release)
        replica.waiting.enter(self)

    # Requests

    def ask(
        self, decide: Callable[[Hashable, int], Decision[Any, EffectT]]
    ) -> "asyncio.Future[object]":
        """Decides a request, which this decision or a later one answers.

        `decide` gets a ticket, which the answering decision names, and the time. PeerError if it
        refuses the request or if this broker is not the coordinator; the future raises one if the
        broker stops being the coordinator, or for a refusal that has to wait: it may come from
        records that are not committed yet.
        """
        now_ms, steady_ms = self._begin()
        ticket: Hashable = next(self._tickets)
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._waiting[ticket] = answer
        try:
            self._carry_out(self._decided(decide, ticket, now_ms), now_ms, steady_ms)
            self._schedule_next()
        except BaseException:
            self._waiting.pop(ticket, None)
            if answer.done():
                answer.exception()  # marks it as retrieved: the caller gets the raised error
            raise
        # The first decision of a partition creates its log, at the end of the turn.
        log = self.replica.log or self.replica.rules.log
        if log.flush_messages != UNLIMITED:
            flushed = loop.create_task(self._flushed(answer), name="flush")
            # Marks an error as retrieved: the caller gets it, if it still waits.
            flushed.add_done_callback(lambda task: task.cancelled() or task.exception())
            return flushed
        return answer

    async def read(self, look: Callable[[int], Seen]) -> Seen:
        """The result of `look` on the state of now, returned once that state is committed.

        A PeerError that `look` raises is a result as well.
        """
        self._require_active()
        try:
            seen = look(self._clock.wall_ms())
        except PeerError:
            await self._until_committed()
            raise
        await self._until_committed()
        return seen

    async def write(self, decide: Callable[[int], Decision[Any, EffectT]]) -> None:
        """Carries out a decision and returns once its records are committed."""

        def decide_and_answer(ticket: Hashable, now_ms: int) -> Decision[Any, EffectT]:
            decision = decide(now_ms)
            return decision._replace(answers=(*decision.answers, Answered(ticket, None)))

        await self.ask(decide_and_answer)

    def apply(self, decide: Callable[[int], Decision[Any, EffectT]]) -> None:
        """Carries out a decision without waiting for its commit.

        PeerError if the decision refuses or the log cannot be written: then nothing has changed.
        """
        now_ms, steady_ms = self._begin()
        self._carry_out(decide(now_ms), now_ms, steady_ms)
        self._schedule_next()

    def apply_all(self, decide: Callable[[int], Iterable[Decision[Any, EffectT]]]) -> None:
        """Carries out decisions like `apply`, each one before the next is made.

        PeerError if the log cannot be written; the decisions before it may still be committed.
        """
        now_ms, steady_ms = self._begin()
        for decision in decide(now_ms):
            self._carry_out(decision, now_ms, steady_ms)
        self._schedule_next()

    def append_turn(self) -> "asyncio.Future[object]":
        """Appends the decisions of this turn now. The future is done once they are committed.

        PeerError as `apply`.
        """
        answer = self.ask(_answer_at_once)
        self._append_or_fail()
        return answer

    def append_marker(self, marker: TransactionMarker) -> AppendResult:
        """Ends the transaction of a producer: its pending records take effect or are dropped.

        PeerError if this shard is loading or closed or the log refuses; then nothing has changed.
        A disk below its reserve does not stop a marker.
        """
        self._require_active()
        self._append_before()
        appended = self._appender.append_marker(
            self.replica,
            marker,
            now_ms=self._clock.wall_ms(),
            expected_leader_epoch=self.leader_epoch,
        )
        self._end_offset = appended.committed_offset
        self.machine.replay_marker(marker.producer_id, marker.kind)
        return appended

    # Loading, timers, closing

    def loaded(self) -> Iterator[None]:
        """The log was replayed to its end: each step carries out one decision of the machine.

        After the last step the shard accepts requests and performs the effects of these decisions.
        """
        now_ms, steady_ms = self._clock.wall_ms(), self._steady_ms()
        for decision in self.machine.loaded(now_ms):
            self._carry_out(decision, now_ms, steady_ms)
            yield
        self.is_loaded = True
        self._release()
        self._schedule_next()

    @property
    def next_due_ms(self) -> int | None:
        """When `expire` has to be called, on the steady clock."""
        due_ms = self.timers.next_due_ms
        if self._unanswered:
            overdue_ms = self._unanswered[0].overdue_ms
            return overdue_ms if due_ms is None else min(due_ms, overdue_ms)
        return due_ms

    def expire(self, steady_ms: int) -> bool:
        """Handles one due timer or overdue answer; False if there is none."""
        if self._unanswered and self._unanswered[0].overdue_ms <= steady_ms:
            self._refuse(
                self._unanswered.popleft().answers,
                PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not committed in time"),
            )
            return True
        key = self.timers.take(steady_ms)
        if key is None:
            return False
        try:
            self.apply(lambda now_ms: self.machine.timer_expired(key, now_ms))
        except PeerError:
            if not self.is_closed:
                self.timers.set(key, steady_ms + RETRY_MS)
        return True

    def close(self) -> None:
        """This broker is no longer the coordinator: waiting requests get NOT_COORDINATOR."""
        self.replica.waiting.leave(self)
        self._resign()

    def count(self, amount: int) -> None:
        """Does nothing: a commit is awaited where it is needed."""

    def wake(self) -> None:
        """Leadership may have changed. A session that is lost has no record in the metadata log."""
        if not self.is_closed and not self._is_leading:
            self._resign()
            # Not now: the partition is calling all of its watchers.
            asyncio.get_running_loop().call_soon(self.replica.waiting.leave, self)

    # Parts

    def _resign(self) -> None:
        self.is_closed = True
        self.timers = Timers()
        self._commit_waits.leave()
        self._unanswered.clear()
        self._effects.clear()
        self._turn = _Turn()
        self._refuse_all(_not_coordinator())

    @property
    def _is_leading(self) -> bool:
        """Whether this broker still leads the partition in the leader epoch of the shard."""
        partition = self.replica.partition
        return partition.is_leader and partition.leader_epoch == self.leader_epoch

    @property
    def _is_committed(self) -> bool:
        """Whether all that the state comes from is committed."""
        return not self._turn.rows and self.replica.high_watermark >= self._end_offset

    async def _until_committed(self) -> None:
        if not self._is_committed:
            await self.ask(_answer_at_once)

    def _decided(
        self,
        decide: Callable[[Hashable, int], Decision[Any, EffectT]],
        ticket: Hashable,
        now_ms: int,
    ) -> Decision[Any, EffectT]:
        try:
            return decide(ticket, now_ms)
        except PeerError as error:
            if self._is_committed:
                raise
            return Decision(answers=(Answered(ticket, error),))

    def _begin(self) -> tuple[int, int]:
        """The time of a decision on both clocks. PeerError if no decision can be made now."""
        self._require_active()
        self._require_writable()
        return self._clock.wall_ms(), self._steady_ms()

    def _require_active(self) -> None:
        if self.is_closed or not self._is_leading:
            raise _not_coordinator()
        if not self.is_loaded:
            raise PeerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is loading")

    def _require_writable(self) -> None:
        """Checked before a decision: a decision that cannot be written must not be made."""
        why_full = self._appender.why_full(self.replica)
        if why_full is not None:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why_full)
        try:
            self.replica.partition.check_in_sync()
        except PeerError as error:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    async def _flushed(self, answer: "asyncio.Future[object]") -> object:
        """Also waits for a flush, where `flush.messages` of the topic asks for one."""
        response = await answer
        log = self.replica.log
        if log is None or log.messages_unflushed < log.flush_messages:
            return response
        try:
            await self._flusher.flush(log, log.end_offset)
        except (StorageError, OSError) as error:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        return response

    def _carry_out(self, decision: Decision[Any, EffectT], now_ms: int, steady_ms: int) -> None:
        records, answers, timers, effects, transaction = decision
        if records:
            try:
                if transaction is None:
                    self._replay(records)
                else:
                    self._append_pending(records, transaction)
            except PeerError as error:
                self._refuse(answers, error)
                raise
        for key, due_ms in timers:
            # On the steady clock: a jump of the wall clock must not expire sessions.
            self.timers.set(key, None if due_ms is None else due_ms - now_ms + steady_ms)
        if answers:
            if self._turn.rows:
                self._turn.answers += answers
            else:
                self._answer_later(answers, steady_ms)
        if effects:
            if self._turn.rows:
                self._turn.effects += effects
            else:
                self._perform_later(effects)

    def _replay(self, records: Sequence[Any]) -> None:
        """Replays the records and adds all of them to one batch.

        PeerError, and no record is replayed, if they do not fit one batch or if the current turn
        cannot be appended.
        """
        rows, size_bytes = self._encoded(records)
        turn = self._turn
        if turn.rows and turn.size_bytes + size_bytes > BATCH_BYTES_MAX:
            self._append_before()
            turn = self._turn
        if not turn.rows:
            asyncio.get_running_loop().call_soon(self._append_or_fail)
        turn.rows += rows
        turn.size_bytes += size_bytes
        for record in records:
            self.machine.replay(record)

    def _append_pending(self, records: Sequence[Any], transaction: ProducerIdAndEpoch) -> None:
        """Appends the records as a batch of the transaction, then replays them as pending.

        PeerError, and no record is replayed, if they do not fit one batch or cannot be appended.
        """
        rows, _ = self._encoded(records)
        self._append_before()
        try:
            self._append_rows(rows, transaction)
        except PeerError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise  # the producer is fenced, for example; nothing was written
            self._fail(error)
            raise _not_coordinator() from error
        for record in records:
            self.machine.replay_pending(record, transaction.producer_id)

    def _encoded(self, records: Sequence[Any]) -> tuple[list[Row], int]:
        """The rows of the records and their size. PeerError if they do not fit one batch."""
        rows: list[Row] = list(map(self.machine.encode, records))
        size_bytes = ROW_FIELDS_BYTES * len(rows)
        for key, value in rows:
            size_bytes += len(key) + (len(value) if value else 0)
        if size_bytes > self._decision_bytes_max:
            raise PeerError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{size_bytes} bytes would change at once, at most {self._decision_bytes_max} may.",
            )
        return rows, size_bytes

    def _append_before(self) -> None:
        """Appends the turn so far: another batch has to follow it. PeerError if that fails."""
        if not self._append():
            raise _not_coordinator()

    def _append_or_fail(self) -> None:
        try:
            self._append()
        except Exception as error:
            # Our own fault. The loop only logs it; waiting requests raise it and stop the broker.
            self._refuse_all(error)
            raise

    def _append(self) -> bool:
        """Appends the turn as one batch; False if that fails and the shard is closed."""
        turn, self._turn = self._turn, _Turn()
        if not turn.rows:
            return True
        try:
            self._append_rows(turn.rows)
        except PeerError as error:
            self._fail(error)
            return False
        # Answers first, so that they do not wait for effects. Effects follow in the same turn of
        # the loop, so a request that a client sends after its answer finds them performed: markers
        # that need no other broker are written before the next request of the transactional id.
        if turn.answers:
            self._answer_later(turn.answers, self._steady_ms())
            self._schedule_next()
        if turn.effects:
            self._perform_later(turn.effects)
        return True

    def _append_rows(self, rows: Sequence[Row], producer: ProducerIdAndEpoch = NO_PRODUCER) -> None:
        """Appends one batch, which belongs to the transaction of a producer if one is given."""
        now_ms = self._clock.wall_ms()
        appended = self._appender.append(
            self.replica,
            memoryview(build_batch(rows, now_ms, producer)),
            acks=ACKS_ALL,
            transactional_id_given=producer is not NO_PRODUCER,
            now_ms=now_ms,
            is_own=True,
            expected_leader_epoch=self.leader_epoch,
        )
        self._end_offset = appended.committed_offset

    def _fail(self, error: PeerError) -> None:
        """The log cannot be written: the machine is ahead of it, or the disk has failed."""
        self.close()
        self._on_failed(self, error)

    def _answer_later(self, answers: Sequence[Answered], steady_ms: int) -> None:
        """Gives the answers once everything that they may reveal is committed."""
        if not self._unanswered and self._end_offset <= self.replica.high_watermark:
            self._give(answers)
            return
        overdue_ms = steady_ms + self._commit_timeout_ms
        self._unanswered.append(_Unanswered(self._end_offset, overdue_ms, answers))
        self._release()
        self._commit_waits.wait(self._end_offset)

    def _perform_later(self, effects: Iterable[EffectT]) -> None:
        """Like `_answer_later`, but without a timeout."""
        end_offset = self._end_offset
        self._effects.extend((end_offset, effect) for effect in effects)
        self._release()
        self._commit_waits.wait(end_offset)

    def _schedule_next(self) -> None:
        next_due_ms = self.next_due_ms
        if next_due_ms is not None:
            self._schedule(next_due_ms)

    def _release(self) -> None:
        """Gives the answers and performs the effects of committed decisions."""
        high_watermark = self.replica.high_watermark
        while self._unanswered and self._unanswered[0].end_offset <= high_watermark:
            self._give(self._unanswered.popleft().answers)
        if self._effects:
            # Through the loop: this may be inside an append, and an effect may decide again.
            # After the answers, as in `_append`: their callbacks are scheduled already.
            asyncio.get_running_loop().call_soon(self._perform_committed)

    def _perform_committed(self) -> None:
        try:
            while self._effects and self._is_releasable(self._effects[0][0]):
                if self._must_flush(self._effects[0][0]):
                    self._flush_before_effects()
                    return
                self._perform(self._effects.popleft()[1])
        except Exception as error:
            self._refuse_all(error)  # as in _append_or_fail
            raise

    def _must_flush(self, end_offset: int) -> bool:
        """Whether `flush.messages` demands a flush of decisions up to this offset."""
        log = self.replica.log
        return (
            log is not None
            and log.messages_unflushed >= log.flush_messages
            and log.recovery_point < end_offset
        )

    def _flush_before_effects(self) -> None:
        """Effects outlive a power loss, so the decisions that they come from must as well."""
        if not self._is_flushing:
            self._is_flushing = True
            self._spawn(self._flush_and_perform(), f"flush {self.replica.name}")

    async def _flush_and_perform(self) -> None:
        try:
            await self._flush_despite_full_disk()
        except StorageError:
            return  # the next decision finds the log offline, and closes the shard
        finally:
            self._is_flushing = False
        self._perform_committed()

    async def _flush_despite_full_disk(self) -> None:
        """Flushes the log, again and again while the disk is full. StorageError if it fails."""
        while not self.is_closed:
            log = self.replica.log
            try:
                if log is not None:
                    await self._flusher.flush(log, log.end_offset)
            except OSError:
                await asyncio.sleep(RETRY_MS / 1000)
            else:
                return

    def _is_releasable(self, end_offset: int) -> bool:
        """Whether effects of decisions up to this offset may be performed."""
        return self.is_loaded and self._is_leading and end_offset <= self.replica.high_watermark

    def _give(self, answers: Iterable[Answered]) -> None:
        for ticket, response in answers:
            answer = self._waiting.pop(ticket, None)
            if answer is None or answer.done():
                continue  # the caller was cancelled
            if isinstance(response, PeerError):
                _refuse(answer, response)
            else:
                answer.set_result(response)

    def _refuse(self, answers: Iterable[Answered], error: PeerError) -> None:
        for ticket, _ in answers:
            answer = self._waiting.pop(ticket, None)
            if answer is not None:
                _refuse(answer, error)

    def _refuse_all(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            _refuse(answer, error)

    def _steady_ms(self) -> int:
        return self._clock.steady_ns() // 1_000_000


def _refuse(answer: "asyncio.Future[object]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        # Marks it as retrieved: a caller that was cancelled before it could wait never does.
        answer.exception()


def _not_coordinator() -> PeerError:
    return PeerError(ErrorCode.NOT_COORDINATOR, "this broker is not the coordinator")


def _answer_at_once(ticket: Hashable, _now_ms: int) -> Decision[Never, Never]:
    return Decision(answers=(Answered(ticket, None),))
