"""The encoding of entries: a strict round trip; everything else is refused."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.entry_codec import (
    ENTRY_BYTES_MAX,
    CorruptEntry,
    EntryPacker,
    EntryTooLarge,
    decode,
    encode,
)
from ottla.metadata.json_codec import ADDED_LATER
from ottla.metadata.records import (
    Broker,
    Config,
    ControllerStarted,
    Feature,
    InvalidRecord,
    Partition,
    Quota,
    Record,
    Topic,
)
from ottla.metadata.values import Incarnation, QuotaEntity, QuotaEntityKind, ResourceKind
from ottla.protocol.primitives import ZERO_UUID
from tests.support.metadata.sample_records import (
    ENDPOINT,
    ENTITY,
    ONE_OF_EACH,
    broker,
    partition,
    topic_id,
)

DETERMINISTIC = settings(derandomize=True, deadline=None)


def changed(entry: bytes, change: dict[str, Any], *, without: str = "") -> bytes:
    """The entry with some fields of its first record changed."""
    document = json.loads(entry)
    document["records"][0] |= change
    document["records"][0].pop(without, None)
    return json.dumps(document).encode()


def refusal(entry: bytes) -> str:
    with pytest.raises(CorruptEntry) as caught:
        decode(entry)
    return str(caught.value)


def test_every_record_survives_a_round_trip() -> None:
    assert decode(encode(ONE_OF_EACH)) == ONE_OF_EACH


def test_the_controllers_id_is_missing_in_records_of_earlier_versions() -> None:
    entry = b'{"format":1,"records":[{"epoch":3,"type":"ControllerStarted"}]}'
    assert decode(entry) == (ControllerStarted(3, broker_id=None),)
    assert encode(decode(entry)) == entry


def test_an_entry_may_have_no_records() -> None:
    assert decode(encode(())) == ()


def test_an_entry_is_one_compact_document_with_sorted_keys_and_kafkas_ids() -> None:
    entry = encode([Topic("orders", topic_id(255)), ControllerStarted(3)])
    assert entry == (
        b'{"format":1,"records":['
        b'{"name":"orders","topic_id":"AAAAAAAAAAAAAAAAAAAA_w","type":"Topic"},'
        b'{"epoch":3,"type":"ControllerStarted"}]}'
    )


def test_text_beyond_ascii_stays_readable() -> None:
    config = Config(ResourceKind.BROKER, "", "käse", "🧀")
    assert "🧀".encode() in encode([config])
    assert decode(encode([config])) == (config,)


def test_a_whole_number_is_a_quota_too() -> None:
    quota = Quota(ENTITY, "request_percentage", 50)
    assert decode(encode([quota])) == (quota,)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "nested"),
        (b"7", "an object with its format expected"),
        (b'{"records":[]}', "an object with its format expected"),
        (b'{"format":2,"records":[]}', "format 2, only 1 is known"),
        (b'{"format":true,"records":[]}', "format True, only 1 is known"),
        (b'{"format":1}', "a list of records expected"),
        (b'{"format":1,"records":{}}', "a list of records expected"),
        (b'{"format":1,"records":[],"more":1}', "a list of records expected"),
        (b'{"format":1,"format":1,"records":[]}', "stands twice"),
        (b'{"format":1,"records":[3]}', "records[0]: a record expected"),
        (b'{"format":1,"records":[{"epoch":1}]}', "records[0]: a record of type 'None'"),
        (b'{"format":1,"records":[{"type":"Query"}]}', "records[0]: a record of type 'Query'"),
        (b'{"format":1,"records":[{"type":["Topic"]}]}', "is not known"),
        (b'{"format":1,"records":[{"type":"EpochFloor","epoch":NaN}]}', "NaN is no number"),
    ],
)
def test_a_malformed_entry_is_refused_with_its_reason(entry: bytes, complaint: str) -> None:
    assert complaint in refusal(entry)


@pytest.mark.parametrize(
    ("record", "change", "complaint"),
    [
        (ControllerStarted(1), {"epoch": -1}, "ControllerStarted.epoch: a number outside"),
        (ControllerStarted(1), {"epoch": 2**31}, "ControllerStarted.epoch: a number outside"),
        (ControllerStarted(1), {"epoch": True}, "epoch: int expected, bool found"),
        (ControllerStarted(1), {"epoch": 1.0}, "epoch: int expected, float found"),
        (ControllerStarted(1), {"epoch": None}, "epoch: int expected, NoneType found"),
        (ControllerStarted(1), {"broker_id": -1}, "broker_id: a number outside"),
        (ControllerStarted(1), {"broker_id": None}, "broker_id: a default, which is left out"),
        (ControllerStarted(1), {"of": 1}, "ControllerStarted: field 'of' is not known"),
        (Topic("a", topic_id(1)), {"name": ""}, "Topic.name: 0 characters"),
        (Topic("a", topic_id(1)), {"name": "x/y"}, "Topic: 'x/y' is no name for a topic"),
        (Topic("a", topic_id(1)), {"name": ".."}, "Topic: '..' is no name for a topic"),
        (Topic("a", topic_id(1)), {"topic_id": str(ZERO_UUID)}, "nothing but zeros"),
        (Topic("a", topic_id(1)), {"topic_id": "short"}, "Topic.topic_id: 'short' is no id"),
        (Topic("a", topic_id(1)), {"topic_id": "AAAAAAAAAAAAAAAAAAAAAB"}, "is no id"),
        (partition(), {"isr": [[1, 5], [2]]}, "Partition.isr[1]: 2 values expected"),
        (partition(), {"isr": 1}, "Partition.isr: list expected, int found"),
        (partition(), {"leader": [1]}, "Partition.leader: 2 values expected"),
        (partition(), {"min_isr": 0}, "Partition.min_isr: a number outside"),
        (partition(), {"leader": [3, 5]}, "is not in the isr"),
        (broker(), {"state": "sleeping"}, "Broker.state: 'sleeping' is no BrokerState"),
        (broker(), {"endpoints": [{"port": 1}]}, "Broker.endpoints[0]: field 'host' is missing"),
        (ONE_OF_EACH[6], {"credential": {"salt": "a"}}, "User.credential: field"),
        (ONE_OF_EACH[5], {"in_force": 1}, "Acl.in_force: bool expected"),
        (ONE_OF_EACH[7], {"value": "12"}, "Quota.value: a number expected"),
        (ONE_OF_EACH[7], {"value": 10**400}, "Quota.value: a number that is not finite"),
        (ONE_OF_EACH[4], {"value": "\ud800"}, "Config.value: half of a surrogate pair"),
        (ONE_OF_EACH[4], {"value": "x" * 40_000}, "Config.value: 40000 characters"),
    ],
)
def test_a_wrong_field_is_refused_with_its_path(
    record: Record, change: dict[str, Any], complaint: str
) -> None:
    told = refusal(changed(encode([record]), change))
    assert told.startswith("records[0].")
    assert complaint in told


@pytest.mark.parametrize("record", ONE_OF_EACH, ids=lambda record: type(record).__name__)
def test_only_fields_added_later_may_be_missing(record: Record) -> None:
    for field in dataclasses.fields(record):
        if field.metadata == ADDED_LATER:
            assert type(record) in (ControllerStarted, Broker, Partition)
            continue
        told = refusal(changed(encode([record]), {}, without=field.name))
        assert f"field {field.name!r} is missing" in told


def test_non_canonical_base64_is_refused() -> None:
    entry = encode([ONE_OF_EACH[6]])
    assert b'"salt":"c2FsdA=="' in entry
    assert "is no base64" in refusal(entry.replace(b'"c2FsdA=="', b'"c2FsdB=="'))
    assert "is no base64" in refusal(entry.replace(b'"c2FsdA=="', b'"c2Fs*A=="'))


def test_a_number_too_large_for_a_float_is_refused() -> None:
    entry = encode([ONE_OF_EACH[7]])
    assert "not finite" in refusal(entry.replace(b"1024.5", b"1e999"))


@pytest.mark.parametrize(
    "changes",
    [
        {"leader": None},
        {"leader": None, "isr": ()},
        {"leader": None, "isr": (), "elr": (Incarnation(1, 5), Incarnation(2, 6)), "unclean": (3,)},
        {"adding": (3,), "removing": (1,)},
    ],
)
def test_a_partition_may_be_without_leader_or_isr(changes: dict[str, Any]) -> None:
    record = partition(**changes)
    assert decode(encode([record])) == (record,)


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (broker(endpoints=(ENDPOINT, ENDPOINT)), "listeners name one twice"),
        (Quota((), "producer_byte_rate", 1.0), "a quota for nobody"),
        (Quota(ENTITY[::-1], "producer_byte_rate", 1.0), "not in order"),
        (Quota((ENTITY[0], ENTITY[0]), "producer_byte_rate", 1.0), "not in order"),
        (broker(epoch=-1), "Broker.epoch: a number outside"),
        (Config(ResourceKind.TOPIC, "a", "", None), "Config.key: 0 characters"),
        (Quota((QuotaEntity(QuotaEntityKind.IP, None),), "k", float("nan")), "not finite"),
    ],
)
def test_a_record_that_could_not_be_read_is_not_written(record: Record, complaint: str) -> None:
    with pytest.raises(InvalidRecord, match=complaint):
        encode([record])


def test_an_entry_beyond_the_limit_is_refused() -> None:
    wide = [Config(ResourceKind.TOPIC, "a", f"key-{n}", "x" * 30_000) for n in range(20)]
    with pytest.raises(EntryTooLarge) as caught:
        encode(wide)
    assert caught.value.size_bytes > ENTRY_BYTES_MAX
    with pytest.raises(CorruptEntry, match="524289 bytes"):
        decode(b" " * (ENTRY_BYTES_MAX + 1))


def packed(records: Sequence[Record]) -> list[bytes]:
    packer = EntryPacker()
    for record in records:
        packer.add(record)
    return packer.entries()


def test_many_records_are_packed_into_entries_within_the_limit() -> None:
    wide = [Config(ResourceKind.TOPIC, "a", f"key-{n}", "x" * (n * 250)) for n in range(100)]
    entries = packed(wide)
    assert len(entries) > 2
    assert all(len(entry) <= ENTRY_BYTES_MAX for entry in entries)
    assert [record for entry in entries for record in decode(entry)] == wide
    assert packed([]) == []


def test_a_record_larger_than_an_entry_is_refused_when_packing_too() -> None:
    # A broker with many listeners is the only record that can be larger than an entry.
    listeners = tuple(dataclasses.replace(ENDPOINT, listener=f"L{n}" * 4000) for n in range(50))
    with pytest.raises(EntryTooLarge):
        packed([Feature("f", 1), broker(endpoints=listeners)])


@DETERMINISTIC
@given(st.binary(max_size=200))
def test_random_bytes_are_a_corrupt_entry(garbage: bytes) -> None:
    with pytest.raises(CorruptEntry):
        decode(garbage)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
FIELDS = sorted({field.name for kind in get_args(Record) for field in dataclasses.fields(kind)})


@DETERMINISTIC
@given(st.sampled_from(ONE_OF_EACH), st.sampled_from([*FIELDS, "type"]), JSON)
def test_a_record_with_a_random_field_is_refused_or_survives_a_round_trip(
    record: Record, field: str, value: object
) -> None:
    document = json.loads(encode([record]))
    document["records"][0][field] = value
    try:
        found = decode(json.dumps(document).encode())
    except CorruptEntry:
        return
    assert decode(encode(found)) == found


@DETERMINISTIC
@given(st.data())
def test_an_entry_with_a_flipped_bit_is_refused_or_survives_a_round_trip(
    data: st.DataObject,
) -> None:
    entry = bytearray(encode(ONE_OF_EACH))
    entry[data.draw(st.integers(0, len(entry) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = decode(bytes(entry))
    except CorruptEntry:
        return
    assert decode(encode(found)) == found
