"""One partition of a coordinator's topic under one leader epoch: decide, replay, append, answer.

What is decided in one turn of the loop is appended as one batch at the beginning of the next. The
decisions of a turn see each other, and nobody else sees them: what they changed is in the local log
and on every replica in sync before anybody is told. A shard lives as long as its broker leads the
partition; the next leader's shard is made from the log.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ottla.coordinators.runtime.decision import Answered, Decision
from ottla.coordinators.runtime.machine import Machine
from ottla.coordinators.runtime.timers import Timers
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol import batch
from ottla.replication.append.appender import ACKS_ALL, Appender
from ottla.replication.append.flusher import Flusher
from ottla.replication.replica import Replica
from ottla.seams.clock import Clock
from ottla.storage.log.config import UNLIMITED
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.coordinators.group.records import Record

# A timer that cannot be acted on, because nothing can be written, is tried again after this.
RETRY_MS = 1_000
# A batch of more than one decision is no larger, about.
BATCH_BYTES_MAX = 256 << 10
# What a record needs in a batch besides its key and value, at most.
ROW_FIELDS_BYTES = 32

_batch_record = maker(batch.Record)


MachineT = TypeVar("MachineT", bound=Machine)
Seen = TypeVar("Seen")


class _Unanswered(NamedTuple):
    """Answers that are given once the log is committed up to an offset."""

    end_offset: int
    overdue_ms: int
    answers: Sequence[Answered]


class _Unwritten:
    """What was decided since the last batch: the rows of the next one, and whom it answers."""

    __slots__ = ("answers", "rows", "size_bytes")

    def __init__(self) -> None:
        self.rows: list[tuple[bytes, bytes | None]] = []
        self.size_bytes = 0
        self.answers: list[Answered] = []


class Shard(Generic[MachineT]):
    """See the module. It watches its partition, to give answers when the high watermark moves.

    `set_off` is called with the time of what is due first, whenever something was set; `failed`
    when what was decided could not be written: then the state is ahead of the log, and has to be
    made anew.
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
        set_off: Callable[[int], None] = lambda _due_ms: None,
        failed: Callable[["Shard[MachineT]", PeerError], None] = lambda _shard, _error: None,
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
        self._set_off = set_off
        self._failed = failed
        # Up to where the state has replayed the log, if nothing is unwritten.
        self._end_offset = replica.end_offset
        self._unwritten = _Unwritten()
        self._tickets = itertools.count(1)
        self._waiting: dict[Hashable, asyncio.Future[object]] = {}
        self._unanswered: deque[_Unanswered] = deque()
        replica.waiting.enter(self)

    # Asking

    async def ask(self, decide: Callable[[Hashable, int], Decision]) -> object:
        """The answer to a request, given by this decision or by a later one.

        `decide` gets a ticket, which the decision that answers names, and the time. PeerError if
        it refuses, or if this broker cannot answer any more.
        """
        return await self.ask_now(decide)

    def ask_now(self, decide: Callable[[Hashable, int], Decision]) -> "asyncio.Future[object]":
        """As `ask`, but what is refused by the decision itself is refused before this returns."""
        now_ms, steady_ms = self._begin()
        ticket: Hashable = next(self._tickets)
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._waiting[ticket] = answer
        try:
            self._carry_out(decide(ticket, now_ms), now_ms, steady_ms)
            self._set_off_next()
        except BaseException:
            self._waiting.pop(ticket, None)
            if answer.done():
                answer.exception()  # it was refused as well: nobody else asks why
            raise
        log = self.replica.log
        if log is not None and log.flush_messages != UNLIMITED:
            return loop.create_task(self._flushed(answer), name="flush")
        return answer

    async def read(self, look: Callable[[int], Seen]) -> Seen:
        """What `look` sees now, once all that it could have seen is committed."""
        self._require_active()
        seen = look(self._clock.wall_ms())
        if self._unwritten.rows or self.replica.high_watermark < self._end_offset:
            await self.ask(lambda ticket, _: Decision(answers=(Answered(ticket, None),)))
        return seen

    async def write(self, decide: Callable[[int], Decision]) -> None:
        """Acts on a decision, and returns once its records are committed."""

        def decide_and_answer(ticket: Hashable, now_ms: int) -> Decision:
            decision = decide(now_ms)
            return decision._replace(answers=(*decision.answers, Answered(ticket, None)))

        await self.ask(decide_and_answer)

    def act(self, decide: Callable[[int], Decision]) -> None:
        """Acts on a decision; what it answers is told once it is committed. No `await`.

        PeerError if the decision refuses or nothing can be written: then nothing has changed.
        """
        now_ms, steady_ms = self._begin()
        self._carry_out(decide(now_ms), now_ms, steady_ms)
        self._set_off_next()

    def act_on_all(self, decide: Callable[[int], Iterable[Decision]]) -> None:
        """Acts on decisions, each before the next is asked for. As `act`.

        PeerError if nothing can be written: then those that were asked for may still be.
        """
        now_ms, steady_ms = self._begin()
        for decision in decide(now_ms):
            self._carry_out(decision, now_ms, steady_ms)
        self._set_off_next()

    def settle(self) -> "asyncio.Future[object]":
        """Writes what was decided, now; comes once that is committed. PeerError as `act`."""
        answer = self.ask_now(lambda ticket, _: Decision(answers=(Answered(ticket, None),)))
        self._write_or_fail()
        return answer

    # Living

    def loaded(self) -> Iterator[None]:
        """The log was replayed to its end: each step acts on a part of what follows from it.

        After the last one it is asked, and decides.
        """
        now_ms, steady_ms = self._clock.wall_ms(), self._steady_ms()
        for decision in self.machine.loaded(now_ms):
            self._carry_out(decision, now_ms, steady_ms)
            yield
        self.is_loaded = True
        self._set_off_next()

    @property
    def next_due_ms(self) -> int | None:
        """When `expire` has something to do, on the steady clock."""
        due_ms = self.timers.next_due_ms
        if self._unanswered:
            overdue_ms = self._unanswered[0].overdue_ms
            return overdue_ms if due_ms is None else min(due_ms, overdue_ms)
        return due_ms

    def expire(self, steady_ms: int) -> bool:
        """Does one thing that is due, if there is one."""
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
            self.act(lambda now_ms: self.machine.expired(key, now_ms))
        except PeerError:
            if not self.is_closed:
                self.timers.set(key, steady_ms + RETRY_MS)
        return True

    def close(self) -> None:
        """Another is the coordinator now: whoever waits is told so."""
        self.is_closed = True
        self.replica.waiting.leave(self)
        self._unanswered.clear()
        self._unwritten = _Unwritten()
        self._refuse_all(_not_coordinator())

    def count(self, amount: int) -> None:  # noqa: ARG002 - what moved is not asked for
        """The high watermark has moved."""
        self._answer_committed()

    def wake(self) -> None:
        """Leadership may be another's: whoever keeps the shards closes this one then."""
        self._answer_committed()

    # Parts

    def _begin(self) -> tuple[int, int]:
        """When a decision is made, on both clocks. PeerError if none can be."""
        self._require_active()
        self._require_writable()
        return self._clock.wall_ms(), self._steady_ms()

    def _require_active(self) -> None:
        partition = self.replica.partition
        is_led = partition.is_leader and partition.leader_epoch == self.leader_epoch
        if self.is_closed or not is_led:
            raise _not_coordinator()
        if not self.is_loaded:
            raise PeerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is loading")

    def _require_writable(self) -> None:
        """Before a decision: what could not be written is better not decided."""
        why_full = self._appender.why_full(self.replica)
        if why_full is not None:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, why_full)
        try:
            self.replica.partition.check_in_sync()
        except PeerError as error:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    async def _flushed(self, answer: "asyncio.Future[object]") -> object:
        """Where the topic's settings say that so many messages must be on the disk."""
        response = await answer
        log = self.replica.log
        if log is None or log.messages_unflushed < log.flush_messages:
            return response
        try:
            await self._flusher.flush(log, log.end_offset)
        except (StorageError, OSError) as error:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        return response

    def _carry_out(self, decision: Decision, now_ms: int, steady_ms: int) -> None:
        records, answers, timers = decision
        if records:
            self._replay(records)
        for key, due_ms in timers:
            # A wall clock that jumps must not end everybody's session.
            self.timers.set(key, None if due_ms is None else due_ms - now_ms + steady_ms)
        if answers:
            if self._unwritten.rows:
                self._unwritten.answers += answers
            else:
                self._answer_later(answers, steady_ms)

    def _replay(self, records: Sequence["Record"]) -> None:
        """All of them go into one batch.

        PeerError, and none is replayed: they do not fit one, or what comes first cannot be written.
        """
        rows = list(map(self.machine.encode, records))
        size_bytes = ROW_FIELDS_BYTES * len(rows)
        for key, value in rows:
            size_bytes += len(key) + (len(value) if value else 0)
        if size_bytes > self._decision_bytes_max:
            raise PeerError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{size_bytes} bytes would change at once, at most {self._decision_bytes_max} may.",
            )
        unwritten = self._unwritten
        if unwritten.rows and unwritten.size_bytes + size_bytes > BATCH_BYTES_MAX:
            if not self._write():
                raise _not_coordinator()
            unwritten = self._unwritten
        if not unwritten.rows:
            asyncio.get_running_loop().call_soon(self._write_or_fail)
        unwritten.rows += rows
        unwritten.size_bytes += size_bytes
        for record in records:
            self.machine.replay(record)

    def _write_or_fail(self) -> None:
        try:
            self._write()
        except Exception as error:
            # Our own fault. The loop only logs it: those who wait end the broker.
            self._refuse_all(error)
            raise

    def _write(self) -> bool:
        """Appends what was decided, as one batch; False if that cannot be, and all is over."""
        unwritten, self._unwritten = self._unwritten, _Unwritten()
        if not unwritten.rows:
            return True
        now_ms = self._clock.wall_ms()
        rows = [
            _batch_record((offset, now_ms, key, value, ()))
            for offset, (key, value) in enumerate(unwritten.rows)
        ]
        try:
            # Kafka's coordinators number their batches from 0, with no producer.
            appended = self._appender.append(
                self.replica,
                memoryview(batch.build(rows, base_sequence=0)),
                acks=ACKS_ALL,
                transactional_id_given=False,
                now_ms=now_ms,
                is_own=True,
            )
        except PeerError as error:
            # The state is ahead of the log.
            self.close()
            self._failed(self, error)
            return False
        self._end_offset = appended.committed_offset
        if unwritten.answers:
            self._answer_later(unwritten.answers, self._steady_ms())
            self._set_off_next()
        return True

    def _answer_later(self, answers: Sequence[Answered], steady_ms: int) -> None:
        """Once all that they could tell of is committed."""
        if not self._unanswered and self._end_offset <= self.replica.high_watermark:
            self._give(answers)
            return
        overdue_ms = steady_ms + self._commit_timeout_ms
        self._unanswered.append(_Unanswered(self._end_offset, overdue_ms, answers))
        self._answer_committed()

    def _set_off_next(self) -> None:
        next_due_ms = self.next_due_ms
        if next_due_ms is not None:
            self._set_off(next_due_ms)

    def _answer_committed(self) -> None:
        high_watermark = self.replica.high_watermark
        while self._unanswered and self._unanswered[0].end_offset <= high_watermark:
            self._give(self._unanswered.popleft().answers)

    def _give(self, answers: Iterable[Answered]) -> None:
        for ticket, response in answers:
            answer = self._waiting.pop(ticket, None)
            if answer is None or answer.done():
                continue  # whoever asked has gone
            if isinstance(response, PeerError):
                answer.set_exception(response)
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


def _not_coordinator() -> PeerError:
    return PeerError(ErrorCode.NOT_COORDINATOR, "this broker is not the coordinator")
