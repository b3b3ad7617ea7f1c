"""The load generator of transactions: its frames, sequences, epochs and retries."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from benchmarks.loads.generators import generator
from benchmarks.loads.tools import output_of
from benchmarks.row import LoadFailed

from ottla.errors import ErrorCode
from ottla.protocol.batch import BatchHeader, crc_is_valid, read_header, records
from ottla.protocol.messages import add_partitions_to_txn, produce, txn_offset_commit
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.support.scripted_broker import Asked, scripted_broker

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc builds the generators")

FIRST_PRODUCER_ID = 7000
FIRST_EPOCH = 3


@dataclass
class Coordinator:
    """Answers as a broker does; `refusals` are codes for the first requests of one kind."""

    refused: type | None = None
    refusals: list[int] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)

    def answer(self, asked: Asked) -> object:
        message = asked.message
        code = self.refusals.pop(0) if type(message) is self.refused and self.refusals else 0
        match message:
            case InitProducerIdRequest():
                producer_id = FIRST_PRODUCER_ID + len(self.epochs)
                self.epochs[message.transactional_id or ""] = FIRST_EPOCH
                return InitProducerIdResponse(
                    error_code=code, producer_id=producer_id, producer_epoch=FIRST_EPOCH
                )
            case EndTxnRequest():
                epoch = self.epochs[message.transactional_id] + (asked.version >= 5)
                self.epochs[message.transactional_id] = epoch
                return EndTxnResponse(
                    error_code=code, producer_id=message.producer_id, producer_epoch=epoch
                )
            case add_partitions_to_txn.AddPartitionsToTxnRequest():
                return self._added(message, code)
            case txn_offset_commit.TxnOffsetCommitRequest():
                return self._committed(message, code)
        return self._produced(message, code)

    def _added(self, message: Any, code: int) -> object:
        results = tuple(
            add_partitions_to_txn.TopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    add_partitions_to_txn.PartitionResult(
                        partition_index=index, partition_error_code=code
                    )
                    for index in topic.partitions
                ),
            )
            for topic in message.v3_and_below_topics
        )
        return add_partitions_to_txn.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=results
        )

    def _committed(self, message: Any, code: int) -> object:
        results = tuple(
            txn_offset_commit.TopicResult(
                name=topic.name,
                partitions=tuple(
                    txn_offset_commit.PartitionResult(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
        return txn_offset_commit.TxnOffsetCommitResponse(topics=results)

    def _produced(self, message: Any, code: int) -> object:
        """Only the last partition is refused, behind results with everything that can be there."""
        return produce.ProduceResponse(
            responses=tuple(
                produce.TopicResult(
                    name=topic.name,
                    partition_responses=tuple(
                        _produce_result(partition.index, code if is_last else 0)
                        for partition in topic.partition_data
                        for is_last in [partition is topic.partition_data[-1]]
                    ),
                )
                for topic in message.topic_data
            )
        )


def _produce_result(index: int, code: int) -> produce.PartitionResult:
    return produce.PartitionResult(
        index=index,
        error_code=code,
        base_offset=5,
        record_errors=(produce.RecordError(batch_index=1, batch_index_error_message="no"),),
        error_message="a message" if index % 2 else None,
        current_leader=produce.Leader(leader_id=1, leader_epoch=2),
    )


@dataclass(frozen=True)
class Load:
    """The arguments of the generator, except the port."""

    partitions: int = 6
    producers: int = 1
    version: int = 2
    records: int = 100
    payload: int = 100
    end: str = "commit"
    by: str = "count"
    amount: int = 3
    group: Sequence[str] = ()

    def run(self, coordinator: Coordinator) -> tuple[dict[str, float], list[Asked]]:
        arguments: list[object] = ["topic", self.partitions, self.producers, "id", self.version]
        arguments += [self.records, self.payload, self.end, self.by, self.amount, *self.group]
        with scripted_broker(coordinator.answer) as broker:
            command = [generator("transactions"), str(broker.port), *map(str, arguments)]
            said = json.loads(output_of(command))
        return said, broker.asked


def names(asked: Sequence[Asked]) -> list[str]:
    return [f"{each.api.name} v{each.version}" for each in asked]


def batches(asked: Asked) -> Iterator[tuple[int, bytes, BatchHeader]]:
    (topic,) = asked.message.topic_data
    for partition in topic.partition_data:
        batch = bytes(partition.records)
        yield partition.index, batch, read_header(batch)


def produces(asked: Sequence[Asked]) -> list[Asked]:
    return [each for each in asked if isinstance(each.message, produce.ProduceRequest)]


def test_version_2_is_produce_and_end_with_a_new_epoch_for_each_transaction() -> None:
    said, asked = Load(amount=3).run(Coordinator())
    assert names(asked) == ["InitProducerId v4", *["Produce v12", "EndTxn v5"] * 3]
    assert all(each.is_exact for each in asked)
    assert [each.message.producer_epoch for each in asked[2::2]] == [3, 4, 5]
    assert all(each.message.committed for each in asked[2::2])
    for number, produced in enumerate(produces(asked)):
        assert (produced.message.acks, produced.message.transactional_id) == (-1, "id-0")
        headers = [header for _, _, header in batches(produced)]
        assert {header.producer_id for header in headers} == {FIRST_PRODUCER_ID}
        assert {header.producer_epoch for header in headers} == {FIRST_EPOCH + number}
        assert {header.base_sequence for header in headers} == {0}
    assert (said["transactions"], said["requests"], said["retries"]) == (3, 6, 0)


def test_version_1_adds_partitions_and_continues_the_sequences() -> None:
    _, asked = Load(version=1, amount=2).run(Coordinator())
    transaction = ["AddPartitionsToTxn v3", "Produce v11", "EndTxn v4"]
    assert names(asked) == ["InitProducerId v4", *transaction * 2]
    assert all(each.is_exact for each in asked)
    (topic,) = asked[1].message.v3_and_below_topics
    assert (topic.name, tuple(topic.partitions)) == ("topic", (0, 1, 2, 3, 4, 5))
    sequences = [
        [header.base_sequence for _, _, header in batches(produced)] for produced in produces(asked)
    ]
    assert sequences == [[0] * 6, [17, 17, 17, 17, 16, 16]]
    epochs = {header.producer_epoch for each in produces(asked) for _, _, header in batches(each)}
    assert epochs == {FIRST_EPOCH}


def test_records_are_shared_among_the_partitions_in_valid_transactional_batches() -> None:
    _, asked = Load(records=100, payload=100, amount=2).run(Coordinator())
    for produced in produces(asked):
        found = list(batches(produced))
        assert [index for index, _, _ in found] == [0, 1, 2, 3, 4, 5]
        assert [header.count for _, _, header in found] == [17, 17, 17, 17, 16, 16]
        for _, batch, header in found:
            assert header.size == len(batch)
            assert header.is_transactional
            assert crc_is_valid(batch, header)
            assert {len(record.value or b"") for record in records(batch)} == {100}


@pytest.mark.parametrize("payload", range(1, 18))
def test_checksums_are_right_for_every_rest_of_eight_bytes(payload: int) -> None:
    load = Load(partitions=1, records=1, payload=payload, amount=1)
    _, asked = load.run(Coordinator())
    ((_, batch, header),) = batches(produces(asked)[0])
    assert crc_is_valid(batch, header)


def test_offsets_of_a_group_are_committed_before_the_end() -> None:
    load = Load(producers=2, amount=4, group=("group", "source"))
    _, asked = load.run(Coordinator())
    for connection in (0, 1):
        mine = [each for each in asked if each.connection == connection]
        transaction = ["Produce v12", "TxnOffsetCommit v5", "EndTxn v5"]
        assert names(mine) == ["InitProducerId v4", *transaction * (len(mine) // 3)]
        committed = [each.message for each in mine[2::3]]
        assert {(each.group_id, each.transactional_id) for each in committed} == {
            ("group", f"id-{connection}")
        }
        offsets = [(each.topics[0].name, each.topics[0].partitions) for each in committed]
        assert [name for name, _ in offsets] == ["source"] * len(offsets)
        assert [
            (partition.partition_index, partition.committed_offset) for _, (partition,) in offsets
        ] == [(connection, number) for number in range(len(offsets))]
    assert all(each.is_exact for each in asked)


def test_transactions_are_aborted_if_told_so() -> None:
    _, asked = Load(partitions=1, records=1, end="abort", amount=2).run(Coordinator())
    ends = [each.message for each in asked if isinstance(each.message, EndTxnRequest)]
    assert [each.committed for each in ends] == [False, False]


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        (1, add_partitions_to_txn.AddPartitionsToTxnRequest),
        (2, produce.ProduceRequest),
        (2, txn_offset_commit.TxnOffsetCommitRequest),
        (2, EndTxnRequest),
    ],
)
def test_a_request_during_the_completion_of_the_last_transaction_is_sent_again(
    version: int, refused: type
) -> None:
    group = ("group", "source") if refused is txn_offset_commit.TxnOffsetCommitRequest else ()
    code = ErrorCode.CONCURRENT_TRANSACTIONS
    said, asked = Load(version=version, amount=1, group=group).run(Coordinator(refused, [code] * 2))
    sent = [each.message for each in asked if type(each.message) is refused]
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]
    assert (said["transactions"], said["retries"]) == (1, 2)


def test_the_producer_id_is_asked_for_until_the_coordinator_is_there() -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
    _, asked = Load(amount=1).run(Coordinator(InitProducerIdRequest, [*codes]))
    assert names(asked) == [*["InitProducerId v4"] * 3, "Produce v12", "EndTxn v5"]


def test_any_other_error_ends_the_load() -> None:
    coordinator = Coordinator(produce.ProduceRequest, [ErrorCode.INVALID_TXN_STATE])
    with pytest.raises(LoadFailed, match="refused with error 48"):
        Load(amount=1).run(coordinator)


def test_every_producer_ends_its_transaction_when_the_time_is_over() -> None:
    said, asked = Load(producers=3, by="seconds", amount=0).run(Coordinator())
    for connection in range(3):
        mine = [each.message for each in asked if each.connection == connection]
        assert isinstance(mine[-1], EndTxnRequest)
    ends = sum(isinstance(each.message, EndTxnRequest) for each in asked)
    assert said["transactions"] == ends


def test_a_rate_is_not_exceeded() -> None:
    """However slow this machine is: one per second and producer, for 0.3 s and 1 s."""
    said, asked = Load(by="seconds@2", amount=1, producers=2).run(Coordinator())
    assert 2 <= said["transactions"] <= 4
    assert names(asked).count("EndTxn v5") == said["transactions"]
