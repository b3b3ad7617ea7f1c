"""Plain and transactional commits, markers and deletions in any order: the state in memory, the
state after a restart and the state after a compaction are the same.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.machine import (
    EXPIRY_TIMER,
    CommitRequest,
    GroupMachine,
    GroupRules,
)
from ottla.coordinators.group.offsets import PartitionCommit
from ottla.coordinators.runtime.loading import Loader
from ottla.coordinators.runtime.shard import Shard
from ottla.errors import PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.primitives import Uuid
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.replication.append.flusher import Flusher
from ottla.replication.append.transaction_marker import TransactionMarker
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads
from tests.support.coordinators.offset_history import (
    Key,
    PendingValue,
    State,
    Written,
    batches_from,
    compacted,
    state_of,
)
from tests.support.replication.partitions import Partitions, topic_id

# Few keys, so that the events meet.
GROUP, TOPIC, PARTITIONS = "g", "events", (0, 1)
PRODUCER_IDS = (7, 8)
RETENTION_MS = 1_000
RULES = GroupRules(
    offset_metadata_bytes_max=4096,
    commit_bytes_max=1 << 20,
    offsets_retention_ms=RETENTION_MS,
    retention_check_interval_ms=1 << 40,
    groups_max=100,
)
OLD, NEW = topic_id(1), topic_id(2)

partitions = st.lists(st.sampled_from(PARTITIONS), min_size=1, unique=True)
producer_ids = st.sampled_from(PRODUCER_IDS)
topic_ids = st.sampled_from((OLD, NEW))
# An offset, the group, or a topic.
deletions = st.sampled_from((*PARTITIONS, GROUP, OLD, NEW))


def no_members(group_id: str) -> Any:
    raise AssertionError(f"{group_id} has members")


class PendingOffsetsMachine(RuleBasedStateMachine):
    """A shard of the group coordinator on a simulated disk."""

    @initialize()
    def begin(self) -> None:
        # All batches that were ever written, and how far they were collected.
        self.history: list[Written] = []
        self.offset = 0
        # Every commit has another offset, so that no two look the same.
        self.commits = 0
        self._begin_on(Partitions(), [])

    def _begin_on(self, stage: Partitions, batches: list[Written]) -> None:
        """Loads a shard from these batches."""
        self.stage = stage
        self.replica = stage.create()
        if batches:
            self.replica.log = stage.replicas.create_log(self.replica)
            self.replica.log.append_replicated(b"".join(each.content for each in batches))
            self.replica.partition.appended(self.replica.log.end_offset)
        self._load()

    def _load(self) -> None:
        threads = SimThreads(SimEntropy())

        async def load() -> None:
            self.shard: Shard[GroupMachine, Any] = Shard(
                self.replica,
                GroupMachine(RULES, no_members, ConsumerGroup),
                self.stage.appender,
                Flusher(threads),
                self.stage.clock,
                commit_timeout_ms=5_000,
                decision_bytes_max=1 << 20,
                perform=lambda _effect: None,
                schedule=lambda _due_ms: None,
                on_failed=lambda _shard, _error: None,
                spawn=lambda work, _name: work.close(),
            )
            loader = Loader(self.shard, self.stage.clock, threads, lambda _offset, _error: None)
            assert await loader.load()

        run(load(), clock=self.stage.clock)

    def _decide(self, decide: Callable[[int], Decision]) -> None:
        async def decided() -> None:
            try:
                self.shard.apply(decide)
            except PeerError:
                return  # the group does not exist
            await self.shard.append_turn()

        run(decided(), clock=self.stage.clock)

    # Events

    def _request(self, of_id: Uuid, indexes: list[int]) -> CommitRequest:
        commits = []
        for index in indexes:
            self.commits += 1
            commits.append(PartitionCommit(TOPIC, of_id, index, self.commits, -1, None))
        return CommitRequest(GROUP, "", None, -1, 5, -1, commits)

    @rule(of_id=topic_ids, indexes=partitions)
    def commit(self, of_id: Uuid, indexes: list[int]) -> None:
        request = self._request(of_id, indexes)

        def decide(now_ms: int) -> Decision:
            return Decision(tuple(self.shard.machine.commit(request, now_ms).records))

        self._decide(decide)

    @rule(of_id=topic_ids, indexes=partitions, producer_id=producer_ids)
    def commit_in_transaction(self, of_id: Uuid, indexes: list[int], producer_id: int) -> None:
        request = self._request(of_id, indexes)

        def decide(now_ms: int) -> Decision:
            decided = self.shard.machine.commit_in_transaction(request, now_ms)
            producer = ProducerIdAndEpoch(producer_id, 0)
            return Decision(tuple(decided.records), transaction=producer)

        self._decide(decide)

    @rule(producer_id=producer_ids, kind=st.sampled_from(MarkerKind))
    def end_transaction(self, producer_id: int, kind: MarkerKind) -> None:
        async def end() -> None:
            self.shard.append_marker(TransactionMarker(producer_id, 0, kind, 0))

        run(end(), clock=self.stage.clock)

    @rule(deletion=deletions)
    def delete(self, deletion: int | str | Uuid) -> None:
        machine, before = self.shard.machine, {key: self._ids_of(key) for key in self._keys()}
        match deletion:
            case int(index):
                self._decide(lambda _: machine.delete_offsets(GROUP, [(TOPIC, index)], 0))
                assert self._ids_of((GROUP, TOPIC, index)) == []
            case str(group):
                self._decide(lambda _: machine.delete_group(group))
                assert self._keys() == set()
            case of_id:
                self._decide(lambda _: machine.topic_deleted(TOPIC, of_id))
                for key, ids in before.items():
                    # A partition with offsets of both topics of this name is left alone.
                    assert self._ids_of(key) == ([] if set(ids) == {of_id} else ids)

    @rule(passed_ms=st.sampled_from((0, RETENTION_MS)))
    def expire(self, passed_ms: int) -> None:
        before = self._live()
        self.stage.clock.timeline.advance_ns(passed_ms * 1_000_000)
        self._decide(lambda now_ms: self.shard.machine.timer_expired(EXPIRY_TIMER, now_ms))
        after = self._live()
        assert after.pending == before.pending
        assert {
            key for _, key in before.pending
        } & before.committed.keys() <= after.committed.keys()

    @precondition(lambda self: self.replica.log is not None)
    @rule(
        share=st.sampled_from((0.0, 0.5, 1.0)),
        drops_tombstones=st.booleans(),
        drops_batches=st.booleans(),
    )
    def compact_and_restart(
        self, share: float, drops_tombstones: bool, drops_batches: bool
    ) -> None:
        """With a share of 0 nothing is compacted."""
        assert self.replica.log is not None
        end_offset = int(self.replica.last_stable_offset * share)
        batches = list(batches_from(self.replica.log, 0))
        self._collect()
        self._begin_on(
            Partitions(),
            compacted(
                batches,
                end_offset,
                drops_tombstones=drops_tombstones,
                drops_batches=drops_batches,
            ),
        )

    # The promise

    def _collect(self) -> None:
        if self.replica.log is not None:
            self.history += batches_from(self.replica.log, self.offset)
            self.offset = max(self.offset, self.replica.log.end_offset)

    def _live(self) -> State:
        offsets = self.shard.machine.offsets
        return State(
            {each[:3]: each for each in offsets.of(GROUP)},
            {
                (producer_id, key): PendingValue(pending.committed, pending.is_overtaken)
                for producer_id, places in offsets.pending.by_producer.items()
                for key, pending in places.items()
            },
        )

    def _keys(self) -> set[Key]:
        live = self._live()
        return {*live.committed, *(key for _, key in live.pending)}

    def _ids_of(self, key: Key) -> list[Any]:
        """The topic ids of the offsets of a partition that are, or may become, committed."""
        live = self._live()
        committed = [live.committed[key]] if key in live.committed else []
        pending = [
            value.committed
            for (_, other), value in live.pending.items()
            if other == key and not value.is_overtaken
        ]
        return [each.topic_id for each in (*committed, *pending)]

    @invariant()
    def the_state_is_that_of_the_whole_history(self) -> None:
        self._collect()
        live = self._live()
        assert live == state_of(self.history)
        pending = self.shard.machine.offsets.pending
        assert len(pending) == len(live.pending)
        keys = {key for _, key in live.pending}
        assert {(GROUP, *place) for place in pending.partitions(GROUP)} == keys
        assert pending.has_group(GROUP) == bool(keys)


TestPendingOffsets = PendingOffsetsMachine.TestCase
TestPendingOffsets.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
