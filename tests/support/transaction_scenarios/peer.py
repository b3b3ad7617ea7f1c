"""Sends raw requests about one transactional id to a broker, and notes the responses in order.

Each scene has a transactional id, a group and a topic of its own, so that offsets are the same on
every broker. Producer ids are not: they are noted in the order of their first appearance.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.batch import Record, build, read_header, read_marker
from ottla.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    create_topics,
    describe_producers,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_transactions,
    offset_fetch,
    produce,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)
from tests.support.group_scenarios.peer import WAIT_S as WAIT_S
from tests.support.group_scenarios.peer import Peer

# Longer than a scene takes, on whatever machine.
LONG_MS = 300_000
PARTITIONS = 2
TRANSACTION = 1
# Fetch by topic names, which are in the scenes' notes.
FETCH_VERSION = 12
# Answers that a client waits out. In Produce, NOT_ENOUGH_REPLICAS tells older clients the same.
TRANSIENT = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
RETRY_S = 0.01


class Identity(NamedTuple):
    """A producer id and epoch."""

    id: int
    epoch: int

    def at(self, epochs: int) -> "Identity":
        """The same producer so many epochs later, or before."""
        return self._replace(epoch=self.epoch + epochs)

    @property
    def of_another(self) -> "Identity":
        """The same epoch of a producer that nobody knows."""
        return self._replace(id=self.id + 1_000_000)


NONE = Identity(-1, -1)


class TransactionPeer(Peer):
    """`answers` are the noted responses: the same for every broker that behaves like Kafka.

    `waited_out` counts the transient codes by request. The peer asks again until another answer
    comes. `short_ms` is the timeout of transactions that shall time out.
    """

    def __init__(self, servers: str, name: str, *, short_ms: int = 300) -> None:
        self.short_ms = short_ms
        self.waited_out: Counter[tuple[str, ErrorCode]] = Counter()
        self._named: dict[int, str] = {}
        self.transactional_id = name
        super().__init__(servers, name, name)
        self._until_transaction_coordinator_is_there()

    # Asking

    def ask(self, request: object, version: int | None = None) -> Any:
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = self._main.ask(request, version_max=version)
            passing = TRANSIENT.intersection(all_codes(answer))
            if not passing or time.monotonic() > deadline:
                return answer
            for code in passing:
                self.waited_out[type(request).__name__, ErrorCode(code)] += 1
            time.sleep(RETRY_S)

    def try_out(self, what: str, request: object, version: int | None = None) -> Any:
        """Asks, and notes the codes that were answered, of partitions in the order of numbers."""
        answer = self.ask(request, version)
        told = sorted(codes_by_partition(answer))
        assert told, answer
        self.note(what, *told)
        return answer

    def _topic_id(self) -> Any:
        """Of the scene's topic, which is created first."""
        wanted = create_topics.Topic(
            name=self.topic,
            num_partitions=PARTITIONS,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        (created,) = self._main.ask(create_topics.CreateTopicsRequest(topics=(wanted,))).topics
        assert created.error_code == ErrorCode.NONE, created
        topic_id = super()._topic_id()
        self.until(lambda: all(map(self._is_led, range(PARTITIONS))))
        return topic_id

    def _is_led(self, partition: int) -> bool:
        ((found,),) = (each.partitions for each in self._fetch(partition).responses)
        return bool(found.error_code == ErrorCode.NONE)

    def _until_transaction_coordinator_is_there(self) -> None:
        assert self.ask(self.find()).coordinators[0].error_code == ErrorCode.NONE
        # It is loaded once it answers.
        self.ask(self.describe_transaction())

    @property
    def address(self) -> tuple[str, int]:
        return self._address.host, self._address.port

    # Producers

    def name_of(self, producer_id: int) -> str | None:
        """The same name on every broker; None for no producer id."""
        if producer_id == -1:
            return None
        return self._named.setdefault(producer_id, f"id {len(self._named) + 1}")

    def note_identity(self, what: str, answer: Any) -> Identity:
        """Notes the code of an answer with its producer id and epoch."""
        code = ErrorCode(answer.error_code).name
        self.note(what, code, self.name_of(answer.producer_id), answer.producer_epoch)
        return Identity(answer.producer_id, answer.producer_epoch)

    def init(
        self, what: str, at: Identity = NONE, version: int | None = None, **other: Any
    ) -> Identity:
        """InitProducerId, noted."""
        request = self.init_request(at, **other)
        return self.note_identity(what, self.ask(request, version))

    def start(self, **other: Any) -> Identity:
        """InitProducerId that must succeed, not noted."""
        answer = self.ask(self.init_request(**other))
        assert answer.error_code == ErrorCode.NONE, answer
        self.name_of(answer.producer_id)
        return Identity(answer.producer_id, answer.producer_epoch)

    def init_request(
        self, at: Identity = NONE, timeout_ms: int = LONG_MS, **other: Any
    ) -> init_producer_id.InitProducerIdRequest:
        said: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": timeout_ms,
            "producer_id": at.id,
            "producer_epoch": at.epoch,
        }
        return init_producer_id.InitProducerIdRequest(**said | other)

    # Parts of a transaction

    def add(
        self,
        at: Identity,
        partitions: tuple[int, ...] = (0,),
        *,
        topic: str | None = None,
        transactional_id: str | None = None,
    ) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
        """As clients before transaction.version 2 send it."""
        topics = (add_partitions_to_txn.Topic(name=topic or self.topic, partitions=partitions),)
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id_or(transactional_id),
            v3_and_below_producer_id=at.id,
            v3_and_below_producer_epoch=at.epoch,
            v3_and_below_topics=topics,
        )

    def verify(
        self,
        at: Identity,
        partitions: tuple[int, ...] = (0,),
        *,
        adds: bool = False,
        topic: str | None = None,
        transactional_id: str | None = None,
    ) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
        """As a broker sends it."""
        topics = (add_partitions_to_txn.Topic(name=topic or self.topic, partitions=partitions),)
        transaction = add_partitions_to_txn.Transaction(
            transactional_id=self._id_or(transactional_id),
            producer_id=at.id,
            producer_epoch=at.epoch,
            verify_only=not adds,
            topics=topics,
        )
        return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=(transaction,))

    def add_offsets(
        self, at: Identity, *, group: str | None = None, transactional_id: str | None = None
    ) -> add_offsets_to_txn.AddOffsetsToTxnRequest:
        return add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=self._id_or(transactional_id),
            producer_id=at.id,
            producer_epoch=at.epoch,
            group_id=self.group if group is None else group,
        )

    def txn_commit(
        self, at: Identity, offset: int = 1, partition: int = 0, **other: Any
    ) -> txn_offset_commit.TxnOffsetCommitRequest:
        committed = txn_offset_commit.Partition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        topic = other.pop("topic", self.topic)
        said: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "group_id": self.group,
            "producer_id": at.id,
            "producer_epoch": at.epoch,
            "topics": (txn_offset_commit.Topic(name=topic, partitions=(committed,)),),
        }
        return txn_offset_commit.TxnOffsetCommitRequest(**said | other)

    def end_request(
        self, at: Identity, *, commits: bool, transactional_id: str | None = None
    ) -> end_txn.EndTxnRequest:
        return end_txn.EndTxnRequest(
            transactional_id=self._id_or(transactional_id),
            producer_id=at.id,
            producer_epoch=at.epoch,
            committed=commits,
        )

    def end(
        self, what: str, at: Identity, version: int, *, commits: bool = True, **other: Any
    ) -> Identity:
        """EndTxn, noted; the identity for what comes next."""
        answer = self.ask(self.end_request(at, commits=commits, **other), version)
        following = self.note_identity(what, answer)
        return at if following.id == -1 else following

    def finish(self, at: Identity, version: int, *, commits: bool = True) -> Identity:
        """EndTxn that must succeed, not noted."""
        answer = self.ask(self.end_request(at, commits=commits), version)
        assert answer.error_code == ErrorCode.NONE, answer
        self.until_complete()
        if answer.producer_id == -1:
            return at
        return Identity(answer.producer_id, answer.producer_epoch)

    def open(self, at: Identity, partitions: tuple[int, ...] = (0,)) -> None:
        """Adds partitions by the way of older clients; it must succeed."""
        answer = self.ask(self.add(at, partitions), 3)
        assert set(all_codes(answer)) == {ErrorCode.NONE}, answer

    def until_complete(self) -> None:
        """Kafka writes markers after it has answered EndTxn."""
        self.until(lambda: not self.state().startswith("Prepare"))

    def use(self, name: str) -> None:
        """Goes on with another transactional id, and another group, of this scene."""
        self.transactional_id = self.group = f"{self.topic}-{name}"

    def _id_or(self, transactional_id: str | None) -> str:
        return self.transactional_id if transactional_id is None else transactional_id

    # Records

    def produce(
        self,
        at: Identity = NONE,
        sequence: int = 0,
        *,
        count: int = 1,
        partition: int = 0,
        transactional: bool = True,
        transactional_id: str | None = None,
        acks: int = -1,
        named: bool = True,
    ) -> produce.ProduceRequest:
        """A batch of `count` records. `named` tells the transactional id in the request."""
        batch = build(
            [Record(number, 1_700_000_000_000, b"k", b"v") for number in range(count)],
            producer_id=at.id,
            producer_epoch=at.epoch,
            base_sequence=-1 if at.id == -1 else sequence,
            transactional=transactional,
        )
        told = self._id_or(transactional_id) if named else None
        return produce.ProduceRequest(
            transactional_id=told,
            acks=acks,
            timeout_ms=30_000,
            topic_data=(
                produce.Topic(
                    name=self.topic,
                    topic_id=self.topic_id,
                    partition_data=(produce.Partition(index=partition, records=bytes(batch)),),
                ),
            ),
        )

    def try_produce(
        self, what: str, at: Identity, sequence: int = 0, version: int = 11, **other: Any
    ) -> Any:
        """Produces, and notes the code and the offset."""
        answer = self.ask(self.produce(at, sequence, **other), version)
        ((result,),) = (each.partition_responses for each in answer.responses)
        self.note(what, ErrorCode(result.error_code).name, result.base_offset)
        return result

    def store(self, at: Identity, sequence: int = 0, version: int = 11, **other: Any) -> int:
        """Produces what must be taken, not noted; its offset."""
        answer = self.ask(self.produce(at, sequence, **other), version)
        ((result,),) = (each.partition_responses for each in answer.responses)
        assert result.error_code == ErrorCode.NONE, result
        offset: int = result.base_offset
        return offset

    def note_fetched(
        self, what: str, *, committed: bool = True, first: int = 0, partition: int = 0
    ) -> None:
        """Notes all batches of a partition from an offset on, and what is said about them."""
        batches: list[object] = []
        aborted: set[tuple[str | None, int]] | None = set() if committed else None
        while True:
            answer = self._fetch(partition, first=first, committed=committed)
            ((found,),) = (each.partitions for each in answer.responses)
            content = found.records or b""
            if aborted is not None:
                aborted.update(
                    (self.name_of(each.producer_id), each.first_offset)
                    for each in found.aborted_transactions
                )
            begins = positions(content)
            batches += [self._batch_seen(content, position) for position in begins]
            # Kafka's answers may end before a marker.
            if not begins:
                break
            first = read_header(content, begins[-1]).next_offset
        self.note(
            what,
            ErrorCode(found.error_code).name,
            ("high watermark", found.high_watermark),
            ("last stable offset", found.last_stable_offset),
            ("aborted", None if aborted is None else sorted(aborted)),
            batches,
        )

    def _fetch(self, partition: int, *, first: int = 0, committed: bool = False) -> Any:
        wanted = fetch.Partition(
            partition=partition, fetch_offset=first, partition_max_bytes=1 << 20
        )
        asked = fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=int(committed),
            topics=(fetch.Topic(topic=self.topic, partitions=(wanted,)),),
        )
        return self.ask(asked, FETCH_VERSION)

    def _batch_seen(self, content: bytes, position: int) -> object:
        header = read_header(content, position)
        marker = read_marker(content, position) if header.is_control else None
        return (
            marker.kind.name if marker else "records",
            header.base_offset,
            header.last_offset,
            self.name_of(header.producer_id),
            header.producer_epoch,
            header.base_sequence,
        )

    # Looking

    def find(self, transactional_id: str | None = None) -> find_coordinator.FindCoordinatorRequest:
        return find_coordinator.FindCoordinatorRequest(
            key_type=TRANSACTION, coordinator_keys=(self._id_or(transactional_id),)
        )

    def describe_transaction(
        self, *transactional_ids: str
    ) -> describe_transactions.DescribeTransactionsRequest:
        return describe_transactions.DescribeTransactionsRequest(
            transactional_ids=transactional_ids or (self.transactional_id,)
        )

    def state(self) -> str:
        """The state of the transactional id, as Kafka names it."""
        ((told),) = self.ask(self.describe_transaction()).transaction_states
        state: str = told.transaction_state
        return state

    def note_transaction(self, what: str) -> Any:
        """Notes how the transactional id stands when no marker is under way."""
        self.until_complete()
        (told,) = self.ask(self.describe_transaction()).transaction_states
        self.note(
            what,
            ErrorCode(told.error_code).name,
            told.transaction_state,
            told.transaction_timeout_ms,
            # Kafka has a time or -1 here.
            told.transaction_start_time_ms > 0,
            self.name_of(told.producer_id),
            told.producer_epoch,
            sorted((self._said(each.topic), *sorted(each.partitions)) for each in told.topics),
        )
        return told

    def _said(self, topic: str) -> str:
        return "its topic" if topic == self.topic else topic

    def note_producers(self, what: str, partition: int = 0) -> None:
        """Notes the producers of a partition, as DescribeProducers tells them."""
        asked = describe_producers.DescribeProducersRequest(
            topics=(
                describe_producers.RequestedTopic(name=self.topic, partition_indexes=(partition,)),
            )
        )
        ((told,),) = (each.partitions for each in self.ask(asked).topics)
        self.note(
            what,
            ErrorCode(told.error_code).name,
            sorted(
                (
                    self.name_of(each.producer_id),
                    each.producer_epoch,
                    each.last_sequence,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                )
                for each in told.active_producers
            ),
        )

    def note_offsets(self, what: str, *, stable: bool = True, version: int = 9) -> None:
        """Notes the committed offsets of both partitions."""
        topics = (offset_fetch.Topic(name=self.topic, partition_indexes=(0, 1)),)
        if version < 8:
            asked = offset_fetch.OffsetFetchRequest(
                group_id=self.group, topics=topics, require_stable=stable
            )
        else:
            group = offset_fetch.Group(group_id=self.group, topics=topics)
            asked = offset_fetch.OffsetFetchRequest(groups=(group,), require_stable=stable)
        answer = self.ask(asked, version)
        told = answer if version < 8 else answer.groups[0]
        self.note(
            what,
            ErrorCode(told.error_code).name,
            [
                (each.partition_index, each.committed_offset, ErrorCode(each.error_code).name)
                for topic in told.topics
                for each in topic.partitions
            ],
        )

    # What only brokers and operators send

    def marker(
        self,
        at: Identity,
        *,
        commits: bool = True,
        partitions: tuple[int, ...] = (0,),
        coordinator_epoch: int = 0,
        topic: str | None = None,
        transaction_version: int = 0,
    ) -> write_txn_markers.WriteTxnMarkersRequest:
        marker = write_txn_markers.Marker(
            producer_id=at.id,
            producer_epoch=at.epoch,
            transaction_result=commits,
            topics=(
                write_txn_markers.Topic(name=topic or self.topic, partition_indexes=partitions),
            ),
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        return write_txn_markers.WriteTxnMarkersRequest(markers=(marker,))

    def list_ids(self, what: str, version: int = 2, **filters: Any) -> None:
        """Notes which of this scene's transactional ids ListTransactions tells."""
        said: dict[str, Any] = {"state_filters": (), "producer_id_filters": ()}
        answer = self.ask(list_transactions.ListTransactionsRequest(**said | filters), version)
        own = [
            each
            for each in answer.transaction_states
            if each.transactional_id.startswith(self.transactional_id)
        ]
        self.note(
            what,
            ErrorCode(answer.error_code).name,
            sorted(answer.unknown_state_filters),
            sorted(
                (
                    each.transactional_id.removeprefix(self.transactional_id),
                    self.name_of(each.producer_id),
                    each.transaction_state,
                )
                for each in own
            ),
        )

    def features(self) -> Mapping[str, int]:
        """The finalized levels."""
        asked = api_versions.ApiVersionsRequest(
            client_software_name="scenes", client_software_version="1"
        )
        answer = self.ask(asked, 4)
        return {each.name: each.max_version_level for each in answer.finalized_features}

    def update_feature(
        self, feature: str, level: int, **other: Any
    ) -> update_features.UpdateFeaturesRequest:
        checks = other.pop("validate_only", False)
        update = update_features.FeatureUpdate(feature=feature, max_version_level=level, **other)
        return update_features.UpdateFeaturesRequest(
            feature_updates=(update,), validate_only=checks
        )


def all_codes(answer: object) -> Iterator[int]:
    """All that there are in an answer, from the outside in."""
    for _, code in _codes(answer):
        yield code


def codes_by_partition(answer: object) -> Iterator[str]:
    """The names of all codes, of partitions with their numbers."""
    for partition, code in _codes(answer):
        name = ErrorCode(code).name
        yield name if partition is None else f"{partition}: {name}"


def _codes(answer: object) -> Iterator[tuple[int | None, int]]:
    if isinstance(answer, tuple):
        for each in answer:
            yield from _codes(each)
        return
    for name in getattr(type(answer), "__slots__", ()):
        value = getattr(answer, name)
        if name in ("error_code", "partition_error_code"):
            yield getattr(answer, "partition_index", None), value
        else:
            yield from _codes(value)


def positions(content: bytes) -> list[int]:
    """Where the whole batches of a fetched range begin."""
    found = [0]
    while len(content) - found[-1] > 12:
        found.append(found[-1] + read_header(content, found[-1]).size)
    return [begin for begin, end in pairwise(found) if end <= len(content)]
