"""One partition of a coordinator's topic under one leader epoch: decide, append, replay, answer.

What a decision changed is in the local log before anybody sees it, and on every replica in sync
before anybody is told. A shard lives as long as its broker leads the partition; the next leader's
shard is made from the log.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from ottla.coordinators.decision import Answered, Decision
from ottla.coordinators.timers import Timers
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol import batch
from ottla.replication.appends import ACKS_ALL, Appender
from ottla.replication.flushing import Flusher
from ottla.replication.replica import Replica
from ottla.seams.clock import Clock

if TYPE_CHECKING:
    from ottla.coordinators.group.records import Record

# A timer that cannot be acted on, because nothing can be written, is tried again after this.
RETRY_MS = 1_000


class Machine(Protocol):
    """A shard's state: it decides, and changes by `replay`."""

    def encode(self, record: "Record") -> tuple[bytes, bytes | None]:
        """A record's key and value in the log."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> "Record | None":
        """The record, or None if it is of a kind that is not known. StorageError if damaged."""
        ...

    def replay(self, record: "Record") -> None: ...

    def loaded(self, now_ms: int) -> Decision:
        """All there is was replayed."""
        ...

    def expired(self, timer_key: str, now_ms: int) -> Decision:
        """A timer is due that a decision set."""
        ...


MachineT = TypeVar("MachineT", bound=Machine)
Seen = TypeVar("Seen")


class _Unanswered(NamedTuple):
    """Answers that are given once the log is committed up to an offset."""

    end_offset: int
    overdue_ms: int
    answers: Sequence[Answered]


class Shard(Generic[MachineT]):
    """See the module. It watches its partition, to give answers when the high watermark moves.

    `set_off` is called with the time of what is due first, whenever something was set; `failed`
    when what was decided could not be written: then the state is ahead of the log, and has to be
    made anew.
    """

    def __init__(
        self,
        replica: Replica,
        state: MachineT,
        appender: Appender,
        flusher: Flusher,
        clock: Clock,
        *,
        commit_timeout_ms: int,
        set_off: Callable[[int], None] = lambda _due_ms: None,
        failed: Callable[["Shard[MachineT]", PeerError], None] = lambda _shard, _error: None,
    ) -> None:
        self.replica = replica
        self.state = state
        self.leader_epoch = replica.partition.leader_epoch
        self.is_loaded = False
        self.is_closed = False
        self.timers = Timers()
        self._appender = appender
        self._flusher = flusher
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._set_off = set_off
        self._failed = failed
        # Up to where the state has replayed the log.
        self._end_offset = replica.end_offset
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
        ticket: Hashable = next(self._tickets)
        answer = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = answer
        try:
            self.act(lambda now_ms: decide(ticket, now_ms))
            response = await answer
        except PeerError:
            if answer.done():
                answer.exception()  # it was refused as well: nobody else asks why
            raise
        finally:
            del self._waiting[ticket]
        await self._flush_if_asked_to()
        return response

    async def read(self, look: Callable[[int], Seen]) -> Seen:
        """What `look` sees now, once all that it could have seen is committed."""
        self._require_active()
        seen = look(self._clock.wall_ms())
        if self.replica.high_watermark < self._end_offset:
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
        self._require_active()
        self._require_writable()
        now_ms = self._clock.wall_ms()
        self._carry_out(decide(now_ms), now_ms)

    def append(self, records: Sequence["Record"]) -> int:
        """Appends to the local log, as one batch; where the log ends then. PeerError if it cannot.

        Nothing is replayed by it.
        """
        now_ms = self._clock.wall_ms()
        rows = [
            batch.Record(offset, now_ms, *self.state.encode(record))
            for offset, record in enumerate(records)
        ]
        # Kafka's coordinators number their batches from 0, with no producer.
        content = memoryview(batch.build(rows, base_sequence=0))
        appended = self._appender.append(
            self.replica,
            content,
            acks=ACKS_ALL,
            transactional_id_given=False,
            now_ms=now_ms,
            is_own=True,
        )
        return appended.committed_offset

    # Living

    def loaded(self) -> None:
        """The log was replayed to its end: from now on it is asked, and decides."""
        self.is_loaded = True
        self.act(self.state.loaded)

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
            self.act(lambda now_ms: self.state.expired(key, now_ms))
        except PeerError:
            if not self.is_closed:
                self.timers.set(key, steady_ms + RETRY_MS)
        return True

    def close(self) -> None:
        """Another is the coordinator now: whoever waits is told so."""
        self.is_closed = True
        self.replica.waiting.leave(self)
        self._unanswered.clear()
        for answer in self._waiting.values():
            _refuse(answer, _not_coordinator())

    def count(self, amount: int) -> None:  # noqa: ARG002 - what moved is not asked for
        """The high watermark has moved."""
        self._answer_committed()

    def wake(self) -> None:
        """Leadership may be another's: whoever keeps the shards closes this one then."""
        self._answer_committed()

    # Parts

    def _require_active(self) -> None:
        partition = self.replica.partition
        is_led = partition.is_leader and partition.leader_epoch == self.leader_epoch
        if self.is_closed or not is_led:
            raise _not_coordinator()
        if not self.is_loaded:
            raise PeerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is loading")

    def _require_writable(self) -> None:
        """Before a decision: what could not be written is better not decided."""
        if self._appender.is_full:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._appender.is_full)
        try:
            self.replica.partition.check_in_sync()
        except PeerError as error:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    async def _flush_if_asked_to(self) -> None:
        """Where the topic's settings say that so many messages must be on the disk."""
        log = self.replica.log
        if log is None or log.messages_unflushed < log.flush_messages:
            return
        try:
            await self._flusher.flush(log, log.end_offset)
        except (StorageError, OSError) as error:
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def _carry_out(self, decision: Decision, now_ms: int) -> None:
        if decision.records:
            try:
                self._end_offset = self.append(decision.records)
            except PeerError as error:
                self._give_up(error)
            for record in decision.records:
                self.state.replay(record)
        steady_ms = self._steady_ms()
        for key, due_ms in decision.timers:
            # A wall clock that jumps must not end everybody's session.
            self.timers.set(key, None if due_ms is None else due_ms - now_ms + steady_ms)
        if decision.answers:
            overdue_ms = steady_ms + self._commit_timeout_ms
            self._unanswered.append(_Unanswered(self._end_offset, overdue_ms, decision.answers))
            self._answer_committed()
        next_due_ms = self.next_due_ms
        if next_due_ms is not None:
            self._set_off(next_due_ms)

    def _answer_committed(self) -> None:
        high_watermark = self.replica.high_watermark
        while self._unanswered and self._unanswered[0].end_offset <= high_watermark:
            for ticket, response in self._unanswered.popleft().answers:
                answer = self._waiting.get(ticket)
                if answer is None or answer.done():
                    continue  # whoever asked has gone
                if isinstance(response, PeerError):
                    answer.set_exception(response)
                else:
                    answer.set_result(response)

    def _refuse(self, answers: Iterable[Answered], error: PeerError) -> None:
        for ticket, _ in answers:
            answer = self._waiting.get(ticket)
            if answer is not None:
                _refuse(answer, error)

    def _give_up(self, error: PeerError) -> NoReturn:
        self.close()
        self._failed(self, error)
        raise PeerError(ErrorCode.NOT_COORDINATOR, str(error)) from error

    def _steady_ms(self) -> int:
        return self._clock.steady_ns() // 1_000_000


def _refuse(answer: "asyncio.Future[object]", error: PeerError) -> None:
    if not answer.done():
        answer.set_exception(error)


def _not_coordinator() -> PeerError:
    return PeerError(ErrorCode.NOT_COORDINATOR, "this broker is not the coordinator")
