"""How many changes go into one entry of the metadata log."""

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.entry_packing import (
    MAX_CHANGES_PER_ENTRY,
    MAX_RECORDS_PER_ENTRY,
    decide_entry,
)
from ottla.metadata.controller.reassignment import MOVING_REPLICAS_MAX
from ottla.metadata.controller.topic_changes import REPLICATION_FACTOR_MAX
from ottla.metadata.entry_codec import encode
from ottla.metadata.records import Config, Partition, Record, Topic
from ottla.metadata.values import Incarnation, PartitionId, ResourceKind
from tests.support.metadata.sample_records import broker, topic_id


def largest_partition(index: int) -> Partition:
    """It is moving from six brokers to six others."""
    members = tuple(
        Incarnation(2**31 - 1 - number, 2**63 - 1) for number in range(MOVING_REPLICAS_MAX)
    )
    replicas = tuple(member.broker_id for member in members)
    target, originals = replicas[:REPLICATION_FACTOR_MAX], replicas[REPLICATION_FACTOR_MAX:]
    return Partition(
        topic_id=topic_id(2**128 - 1),
        index=2**31 - 1 - index,
        replicas=replicas,
        adding=target,
        removing=originals,
        originals=originals,
        possible_loss_epoch=2**31 - 1,
        leader=members[0],
        leader_epoch=2**31 - 1,
        isr=members,
        min_isr=2**31 - 1,
        partition_epoch=2**31 - 1,
    )


def setting(size: int) -> Config:
    # Each of these characters is six bytes in JSON.
    return Config(ResourceKind.TOPIC, "x" * 249, "key", "\x01" * size)


def test_changes_with_large_records_are_limited_by_the_entry_size() -> None:
    def decide(number: int) -> tuple[list[Record], int]:
        topic = Topic("x" * 249, topic_id(number + 1))
        return [topic, largest_partition(0), setting(1_000)], number

    records, outcomes = decide_entry(range(1_000), decide)

    assert encode(records)
    assert outcomes == list(range(len(outcomes)))
    assert 10 < len(outcomes) < 1_000


def test_brokers_with_many_damaged_and_offline_logs_do_not_exceed_an_entry() -> None:
    logs = tuple(PartitionId(topic_id(number), 999) for number in range(1_000))
    brokers = [broker(number, damaged=logs, offline=logs) for number in range(1, 21)]
    records, outcomes = decide_entry(brokers, lambda each: ([each], None))
    assert 1 < len(records) == len(outcomes) < len(brokers)
    encode(records)


def test_the_records_of_an_entry_are_limited() -> None:
    def decide(number: int) -> tuple[list[Record], int]:
        return [Topic(f"topic-{number}", topic_id(number + 1))] * 2, number

    records, outcomes = decide_entry(range(1_000), decide)

    assert len(records) == MAX_RECORDS_PER_ENTRY
    assert len(outcomes) == MAX_RECORDS_PER_ENTRY // 2


def test_a_change_above_the_limit_has_its_own_entry() -> None:
    def decide(number: int) -> tuple[list[Record], int]:
        return [Topic("large", topic_id(1))] * (MAX_RECORDS_PER_ENTRY + 1), number

    records, outcomes = decide_entry(range(3), decide)

    assert len(records) == MAX_RECORDS_PER_ENTRY + 1
    assert outcomes == [0]


def test_refused_changes_are_limited_as_well() -> None:
    asked = []

    def decide(number: int) -> tuple[list[Record], None]:
        asked.append(number)
        raise PeerError(ErrorCode.INVALID_REQUEST, "no")

    records, outcomes = decide_entry(range(10_000), decide)

    assert records == []
    assert len(outcomes) == len(asked) == MAX_CHANGES_PER_ENTRY


def test_a_refusal_has_no_records_and_keeps_its_place() -> None:
    def decide(number: int) -> tuple[list[Record], int]:
        if number == 1:
            raise PeerError(ErrorCode.INVALID_REQUEST, "no")
        return [Topic(f"topic-{number}", topic_id(number + 1))], number

    records, outcomes = decide_entry(range(3), decide)

    assert len(records) == 2
    assert [outcomes[0], outcomes[2]] == [0, 2]
    assert isinstance(outcomes[1], PeerError)
