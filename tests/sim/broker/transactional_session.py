"""The requests of one transactional producer, repeated as Kafka's clients repeat them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.batch import Record, build
from ottla.protocol.messages import add_partitions_to_txn, produce, txn_offset_commit
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.producer_epoch import NO_PRODUCER, ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition, by_topic
from tests.sim.broker.transactional_connection import (
    Answer,
    CrashedError,
    GivenUpError,
    ProducerConnection,
)
from tests.sim.broker.transactional_history import (
    IN_PROGRESS,
    Incarnation,
    OffsetCommit,
    Transaction,
)
from tests.sim.broker.transactional_world import GROUP, TransactionalWorld
from tests.sim.seams.entropy import SimEntropy

TOPIC_IDS_SINCE = 13
EPOCH_BUMPED_SINCE = 2
ACKS_ALL = -1
PRODUCE_TIMEOUT_MS = 1_000

# There is a later epoch of this producer, or it is unknown.
FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
# The transaction is over, or its topic is.
ABORTABLE = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
TOPIC_IS_GONE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        # The producer goes on with its sequence in a topic of the same name.
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)


class FencedError(Exception):
    """A later epoch has begun."""


class AbortableError(Exception):
    """The transaction cannot be committed."""


class Versions(NamedTuple):
    """Of the requests; `transaction` is the version of transactions that they make."""

    transaction: int
    init: int
    add: int
    produce: int
    commit: int
    end: int

    @classmethod
    def of(cls, transaction: int, entropy: SimEntropy) -> "Versions":
        if transaction < EPOCH_BUMPED_SINCE:
            return cls(
                transaction,
                init=entropy.pick((3, 4)),
                add=entropy.pick((0, 3)),
                produce=entropy.pick((3, 9, 11)),
                commit=entropy.pick((0, 3, 4)),
                end=entropy.pick((1, 3, 4)),
            )
        return cls(transaction, init=5, add=3, produce=entropy.pick((12, 13)), commit=5, end=5)


class ProducerSession:
    """One incarnation of a producer. Each request is repeated until its answer is final."""

    def __init__(
        self,
        world: TransactionalWorld,
        host: str,
        incarnation: Incarnation,
        entropy: SimEntropy,
        versions: Versions,
    ) -> None:
        self.incarnation = incarnation
        self.versions = versions
        # After a batch of which nobody knows whether it is stored, the epoch must be renewed.
        self.must_renew = False
        self._world = world
        self._history = world.history
        self._connection = ProducerConnection(
            world,
            host,
            incarnation,
            entropy,
            has_own_epochs=versions.transaction >= EPOCH_BUMPED_SINCE,
        )
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()

    @property
    def identity(self) -> ProducerIdAndEpoch:
        return self.incarnation.identity

    def close(self) -> None:
        self._connection.close()

    # Its id and epoch

    async def init(self) -> None:
        """Gets an id and an epoch, which fences earlier producers."""
        answer = await self._init(NO_PRODUCER)
        assert answer.code is ErrorCode.NONE, f"{self.incarnation.name}: {answer.response}"

    async def renew(self, last: Transaction) -> None:
        """Gets the next epoch (KIP-360). FencedError if the current one is over."""
        answer = await self._init(self.identity)
        if answer.code in FENCED:
            self._count_fence(last, answer.code)
            raise FencedError
        assert answer.code is ErrorCode.NONE, f"{self.incarnation.name}: {answer.response}"

    async def _init(self, expected: ProducerIdAndEpoch) -> Answer:
        request = InitProducerIdRequest(
            transactional_id=self.incarnation.transactional_id,
            transaction_timeout_ms=self.incarnation.timeout_ms,
            producer_id=expected.producer_id,
            producer_epoch=expected.producer_epoch,
        )
        incarnation = self.incarnation
        asked, asked_life = self._history.moment(), self._world.lives
        incarnation.told = None
        try:
            answer = await self._ask(request, self.versions.init, lambda each: each.error_code)
        except CrashedError as crashed:
            incarnation.lost_life = crashed.lost_in
            raise
        finally:
            incarnation.told = self._history.moment()
        incarnation.lost_life = max(incarnation.lost_life, answer.lost_in)
        incarnation.told_life = self._world.lives
        if answer.code is ErrorCode.NONE:
            incarnation.asked, incarnation.asked_life = asked, asked_life
            self._take(answer.response)
            self.must_renew = False
        return answer

    def _take(self, response: Any) -> None:
        identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        if identity != self.identity:
            self._sequences.clear()
        self._history.identify(self.incarnation, identity)

    # A transaction

    async def add(self, transaction: Transaction, places: list[TopicPartition]) -> None:
        """Adds partitions, as producers of version 1 do."""
        missing = [place for place in places if place not in self._added]
        if self.versions.transaction >= EPOCH_BUMPED_SINCE or not missing:
            return
        producer_id, producer_epoch = self.identity
        topics = tuple(
            add_partitions_to_txn.Topic(
                name=topic, partitions=tuple(each.partition for each in members)
            )
            for topic, members in by_topic(missing).items()
        )
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.incarnation.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=topics,
        )

        def code_of(response: Any) -> int:
            """All partitions have the same one, or one of them is unknown."""
            return max(
                each.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            )

        answer = await self._ask(request, self.versions.add, code_of)
        is_lasting = self._world.fleeting_place not in missing
        self._require(
            answer.code, transaction, accepted=frozenset() if is_lasting else TOPIC_IS_GONE
        )
        self._added.update(missing)

    async def send(
        self, transaction: Transaction, values: Mapping[TopicPartition, list[bytes]]
    ) -> None:
        """One batch for each partition, in as few requests as may be.

        AbortableError if one is refused.
        """
        batches = {place: self._batch(place, each) for place, each in values.items()}
        left = dict(batches)
        refused: ErrorCode = ErrorCode.NONE
        deletions_before = self._history.deletions
        while left:
            together = await self._connection.together(tuple(left))
            request = self._produce_request({place: left[place] for place in together})
            answer = await self._ask(request, self.versions.produce, lambda _: ErrorCode.NONE)
            for place, result in self._results(answer.response):
                code = ErrorCode(result.error_code)
                if code in self._world.retried:
                    self._connection.refused(request)
                    continue
                del left[place]
                if code is not ErrorCode.NONE:
                    refused = code
                    is_fleeting = place == self._world.fleeting_place
                    accepted = TOPIC_IS_GONE if is_fleeting else frozenset[ErrorCode]()
                    self._expect(code, transaction, accepted=accepted)
                    continue
                self._sequences[place] = self._sequences.get(place, 0) + len(values[place])
                if place == self._world.fleeting_place:
                    transaction.deletions_before = deletions_before
                else:
                    self._world.acknowledge(place, result.base_offset, values[place])
                self._history.acknowledge(transaction, place, values[place])
            if left:
                await self._connection.pause()
        if refused is not ErrorCode.NONE:
            self.must_renew = True
            raise AbortableError(refused.name)

    def _batch(self, place: TopicPartition, values: list[bytes]) -> bytes:
        now_ms = self._world.wall_ms()
        return bytes(
            build(
                [Record(offset, now_ms, None, value) for offset, value in enumerate(values)],
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.producer_epoch,
                base_sequence=self._sequences.get(place, 0),
                transactional=True,
            )
        )

    def _produce_request(self, batches: Mapping[TopicPartition, bytes]) -> ProduceRequest:
        return ProduceRequest(
            transactional_id=self.incarnation.transactional_id,
            acks=ACKS_ALL,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=tuple(
                produce.Topic(
                    name=topic,
                    topic_id=self._world.topic_id(topic),
                    partition_data=tuple(
                        produce.Partition(index=each.partition, records=batches[each])
                        for each in members
                    ),
                )
                for topic, members in by_topic(batches).items()
            ),
        )

    def _results(self, response: Any) -> list[tuple[TopicPartition, Any]]:
        by_id = self.versions.produce >= TOPIC_IDS_SINCE
        return [
            (
                TopicPartition(
                    self._world.topic_names[topic.topic_id] if by_id else topic.name, each.index
                ),
                each,
            )
            for topic in response.responses
            for each in topic.partition_responses
        ]

    async def commit_offsets(
        self, transaction: Transaction, places: Sequence[TopicPartition]
    ) -> None:
        """Commits offsets of the group in the transaction."""
        await self._add_group(transaction)
        commits = {
            place: self._history.commit_offset(place, IN_PROGRESS, transaction) for place in places
        }
        try:
            answer = await self._connection.ask(
                self._commit_request(commits), self.versions.commit, _code_of_commit
            )
        except (CrashedError, GivenUpError) as error:
            for commit in commits.values():
                commit.life = error.lost_in
            if isinstance(error, CrashedError):
                raise
            self.must_renew = True
            raise AbortableError("given up") from error
        for commit in commits.values():
            commit.life = answer.lost_in
            if answer.lost_in < self._world.lives:
                commit.settled = self._history.moment()
        self._require(answer.code, transaction)
        for commit in commits.values():
            commit.acknowledged = self._history.moment()

    async def _add_group(self, transaction: Transaction) -> None:
        """Adds the group's offsets, as producers of version 1 do."""
        if self.versions.transaction >= EPOCH_BUMPED_SINCE:
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=self.incarnation.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            group_id=GROUP,
        )
        added = await self._ask(request, self.versions.add, lambda each: each.error_code)
        self._require(added.code, transaction)

    def _commit_request(
        self, commits: Mapping[TopicPartition, OffsetCommit]
    ) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=self.incarnation.transactional_id,
            group_id=GROUP,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            topics=tuple(
                txn_offset_commit.Topic(
                    name=topic,
                    partitions=tuple(
                        txn_offset_commit.Partition(
                            partition_index=each.partition,
                            committed_offset=commits[each].offset,
                            committed_metadata="",
                        )
                        for each in members
                    ),
                )
                for topic, members in by_topic(commits).items()
            ),
        )

    async def end(self, transaction: Transaction, *, is_committed: bool) -> None:
        """FencedError or AbortableError if it is over already."""
        self._history.ask_to_end(transaction, is_committed=is_committed)
        producer_id, producer_epoch = self.identity
        request = EndTxnRequest(
            transactional_id=self.incarnation.transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=is_committed,
        )
        self._world.ending += 1
        try:
            answer = await self._ask(request, self.versions.end, lambda each: each.error_code)
        finally:
            self._world.ending -= 1
        self._added.clear()
        if answer.code is ErrorCode.NONE:
            if is_committed:
                self._history.commit(transaction)
            if self.versions.transaction >= EPOCH_BUMPED_SINCE:
                self._take(answer.response)
                self.must_renew = False
            return
        if is_committed and not (answer.is_repeated and answer.code in FENCED):
            transaction.abort(answer.code.name)
        if is_committed or answer.code in FENCED:
            self._require(answer.code, transaction)
        # A transaction that the coordinator does not know of needs no abort.
        assert answer.code is ErrorCode.INVALID_TXN_STATE, f"{transaction}: {answer.response}"

    # Parts

    def _require(
        self,
        code: ErrorCode,
        transaction: Transaction,
        *,
        accepted: frozenset[ErrorCode] = frozenset(),
    ) -> None:
        if code is ErrorCode.NONE:
            return
        self._expect(code, transaction, accepted=accepted)
        raise FencedError if code in FENCED else AbortableError(code.name)

    def _expect(
        self, code: ErrorCode, transaction: Transaction, *, accepted: frozenset[ErrorCode]
    ) -> None:
        """Accepts an error if there is a reason for it."""
        if code in accepted:
            return
        assert code in FENCED or code in ABORTABLE, f"{transaction}: {code.name}"
        self._count_fence(transaction, code)

    def _count_fence(self, transaction: Transaction, code: ErrorCode) -> None:
        self._history.counts["fenced"] += 1
        if code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            assert self._history.ids_expire, f"{transaction}: its id is unknown"
            self._history.counts["expired ids"] += 1
            return
        assert self._history.may_be_fenced(transaction), (
            f"{transaction} is over without a reason: {code.name}"
        )

    async def _ask(self, request: object, version: int, code_of: Callable[[Any], int]) -> Answer:
        """The final answer. CrashedError or AbortableError if there is none."""
        try:
            return await self._connection.ask(request, version, code_of)
        except GivenUpError as error:
            self.must_renew = True
            raise AbortableError("given up") from error


def _code_of_commit(response: Any) -> int:
    """All partitions have the same code: they are committed together, or refused together."""
    (code,) = {each.error_code for topic in response.topics for each in topic.partitions}
    return int(code)
