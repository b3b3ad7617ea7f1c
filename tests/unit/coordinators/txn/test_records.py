"""The records of `__transaction_state`: Kafka's own are read, and written again as they were."""

import tarfile

import pytest

from ottla.coordinators.stored_record import DamagedRecord
from ottla.coordinators.txn.records import (
    LAST_PRODUCER_EPOCH_TAG,
    TransactionTombstone,
    decode,
    encode,
)
from ottla.coordinators.txn.states import TransactionState
from ottla.coordinators.txn.transaction import Transaction
from ottla.protocol import batch
from ottla.protocol.topic_partition import TopicPartition
from tests.support.paths import VECTORS

SAMPLE = Transaction(
    transactional_id="id",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("u", 5)}),
    update_ms=1_700_000_000_000,
    start_ms=1_700_000_000_001,
    client_version=2,
    previous_producer_id=7,
    next_producer_id=9,
    last_producer_epoch=2,
)


def recorded() -> list[tuple[bytes, bytes | None]]:
    """The records that a real Kafka wrote to its transaction topic."""
    found = []
    with tarfile.open(VECTORS / "disk" / "internal.tar.gz") as archive:
        for member in archive:
            if "__transaction_state" in member.name and member.name.endswith(".log"):
                content = archive.extractfile(member)
                assert content is not None
                raw, position = content.read(), 0
                while position < len(raw):
                    header = batch.read_header(raw, position)
                    found += [
                        (each.key or b"", each.value) for each in batch.records(raw, position)
                    ]
                    position += header.size
    return found


def test_kafkas_records_are_read_and_written_again_as_they_were() -> None:
    pairs = recorded()
    assert len(pairs) > 100
    states = set()
    for key, value in pairs:
        record = decode(key, value)
        assert isinstance(record, Transaction)
        states.add(record.state)
        again = encode(record)
        assert decode(*again) == record
        # Kafka writes the partitions in the order of a hash set.
        if len(record.partitions) < 2:
            assert again == (key, value)
        else:
            assert sorted(again[1] or b"") == sorted(value or b"")
    assert len(states) == 6


def test_every_field_is_kept() -> None:
    assert decode(*encode(SAMPLE)) == SAMPLE


def test_our_own_field_is_written_only_if_it_is_set() -> None:
    without = SAMPLE._replace(last_producer_epoch=-1)
    tag = LAST_PRODUCER_EPOCH_TAG.to_bytes(2, "big")
    assert len(encode(SAMPLE)[1] or b"") == len(encode(without)[1] or b"") + 5
    assert decode(*encode(without)) == without
    assert tag not in (encode(without)[1] or b"")


def test_an_expired_id_is_a_tombstone() -> None:
    key, value = encode(TransactionTombstone("id"))
    assert value is None
    assert key == encode(SAMPLE)[0]
    assert decode(key, value) == TransactionTombstone("id")


def test_other_types_are_skipped_and_damage_is_found() -> None:
    key, value = encode(SAMPLE)
    assert value is not None
    assert decode(b"\x00\x05" + key[2:], value) is None
    for damaged in (value[:-1], b"", b"\x00\x07" + value[2:], value[:18] + b"\x63" + value[19:]):
        with pytest.raises(DamagedRecord):
            decode(key, damaged)


def test_tags_of_later_versions_are_tolerated() -> None:
    key, value = encode(SAMPLE._replace(last_producer_epoch=-1))
    assert value is not None
    # The number of tags is before the first of them: three of ours, and one that is unknown.
    at = value.index(b"\x03\x00\x08")
    later = value[:at] + b"\x04" + value[at + 1 :] + b"\x09\x02\x00\x01"
    assert decode(key, later) == SAMPLE._replace(last_producer_epoch=-1)


def test_idle_ids_share_their_equal_values() -> None:
    """There may be a hundred thousand of them."""
    idle = SAMPLE._replace(
        state=TransactionState.COMPLETE_COMMIT,
        partitions=frozenset(),
        previous_producer_id=SAMPLE.producer_id,
    )
    first, second = decode(*encode(idle)), decode(*encode(idle))
    assert isinstance(first, Transaction)
    assert isinstance(second, Transaction)
    assert first == idle
    assert first.partitions is second.partitions
    assert first.timeout_ms is second.timeout_ms
    assert first.previous_producer_id is first.producer_id
