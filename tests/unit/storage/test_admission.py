import base64
import contextlib
import gzip
import json
from pathlib import Path
from struct import Struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import Record, build, crc_of, read_header
from ottla.protocol.compression import Codec
from ottla.storage.admission import AdmissionRules, Refused, admit

NOW_MS = 1_794_780_313_228
HOUR_MS = 3_600_000
HEADER = Struct(">qiibIhiqqqhii")
RULES = AdmissionRules()
COMPACTED = AdmissionRules(compacted=True)
WIRE = Path(__file__).parents[2] / "vectors" / "wire"


def batch_of(*timestamps_ms: int, key: bytes | None = b"k", **options: Any) -> bytearray:
    records = [
        Record(offset, timestamp, key, b"value")
        for offset, timestamp in enumerate(timestamps_ms or (NOW_MS, NOW_MS))
    ]
    return build(records, **options)


def altered(batch: bytearray, **fields: int) -> bytearray:
    """The batch with these header fields and a CRC that fits."""
    changed = bytearray(batch)
    header = read_header(batch)._replace(**fields)
    HEADER.pack_into(changed, 0, *header)
    if "crc" not in fields:
        HEADER.pack_into(changed, 0, *header._replace(crc=crc_of(changed, 0, len(changed))))
    return changed


def refused(
    batch: bytes | bytearray,
    rules: AdmissionRules = RULES,
    *,
    transactional_id_given: bool = False,
) -> tuple[ErrorCode, int | None]:
    """The code, and the index of the record at fault."""
    with pytest.raises(Refused) as error:
        admit(
            memoryview(batch),
            rules,
            transactional_id_given=transactional_id_given,
            now_ms=NOW_MS,
        )
    return error.value.code, error.value.record_index


def admitted(
    batch: bytes | bytearray,
    rules: AdmissionRules = RULES,
    *,
    transactional_id_given: bool = False,
) -> bool:
    header = admit(
        memoryview(batch), rules, transactional_id_given=transactional_id_given, now_ms=NOW_MS
    )
    return header == read_header(batch)


# What is taken


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("rules", [RULES, COMPACTED])
def test_a_sound_batch_of_every_codec_is_taken(codec: Codec, rules: AdmissionRules) -> None:
    assert admitted(batch_of(codec=codec), rules)


def test_a_producers_batch_is_taken_with_or_without_a_transaction() -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    assert admitted(batch_of(**producer))
    assert admitted(batch_of(**producer), transactional_id_given=True)
    assert admitted(batch_of(**producer, transactional=True), transactional_id_given=True)


def test_nothing_of_the_batch_is_changed() -> None:
    batch = batch_of()
    before = bytes(batch)
    assert admitted(batch)
    assert bytes(batch) == before


# What is no batch, or not one


def test_no_batch_at_all_is_an_invalid_record() -> None:
    for size in range(12):
        assert refused(bytes(size)) == (ErrorCode.INVALID_RECORD, None)


def test_garbage_is_corrupt() -> None:
    assert refused(bytes(20)) == (ErrorCode.CORRUPT_MESSAGE, None)
    assert refused(b"\xff" * 80) == (ErrorCode.CORRUPT_MESSAGE, None)
    assert refused(altered(batch_of(), magic=3)) == (ErrorCode.CORRUPT_MESSAGE, None)
    assert refused(altered(batch_of(), magic=-1)) == (ErrorCode.CORRUPT_MESSAGE, None)


def test_two_batches_are_one_too_many() -> None:
    assert refused(batch_of() + batch_of()) == (ErrorCode.INVALID_RECORD, None)
    assert refused(batch_of() + b"\0") == (ErrorCode.INVALID_RECORD, None)


def test_a_batch_that_is_cut_short_is_none() -> None:
    batch = batch_of()
    for size in range(17, len(batch)):
        assert refused(batch[:size]) == (ErrorCode.INVALID_RECORD, None)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_not_taken(magic: int) -> None:
    assert refused(altered(batch_of(), magic=magic)) == (ErrorCode.INVALID_RECORD, None)


def test_a_batch_smaller_than_its_header_is_corrupt() -> None:
    short = altered(batch_of(), length=40)[:52]
    assert refused(short) == (ErrorCode.CORRUPT_MESSAGE, None)


# The checksum


def test_one_flipped_bit_anywhere_under_the_checksum_is_corrupt() -> None:
    batch = batch_of()
    for at in range(17, len(batch)):
        for bit in (0x01, 0x80):
            flipped = bytearray(batch)
            flipped[at] ^= bit
            with pytest.raises(Refused):
                admit(memoryview(flipped), RULES, transactional_id_given=True, now_ms=NOW_MS)


def test_a_wrong_checksum_is_corrupt() -> None:
    assert refused(altered(batch_of(), crc=1)) == (ErrorCode.CORRUPT_MESSAGE, None)


def test_the_leaders_own_fields_are_outside_the_checksum() -> None:
    assert admitted(altered(batch_of(), partition_leader_epoch=99, crc=read_header(batch_of()).crc))


# The header's fields


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"count": 0, "last_offset_delta": -1}, id="no records"),
        pytest.param({"count": -1, "last_offset_delta": -2}, id="fewer than none"),
        pytest.param({"count": 2, "last_offset_delta": 0}, id="fewer offsets than records"),
        pytest.param({"count": 2, "last_offset_delta": 5}, id="more offsets than records"),
        pytest.param({"base_offset": 5}, id="an offset that is not the client's to choose"),
        pytest.param({"producer_id": 7, "producer_epoch": 0}, id="a producer without a sequence"),
        pytest.param({"producer_id": 7, "base_sequence": 0}, id="a producer without an epoch"),
        pytest.param({"attributes": 0x20}, id="a control batch"),
        pytest.param({"attributes": 0x20 - 0x8000}, id="a control batch with the sign bit set"),
        pytest.param({"attributes": 0x40}, id="a delete horizon"),
    ],
)
def test_a_header_that_no_client_may_send_is_an_invalid_record(fields: dict[str, int]) -> None:
    batch = altered(batch_of(), **fields)
    assert refused(batch, transactional_id_given=True) == (ErrorCode.INVALID_RECORD, None)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    batch = altered(batch_of(), attributes=codec)
    assert refused(batch) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, None)


def test_a_transactional_batch_needs_a_transactional_id_in_the_request() -> None:
    batch = batch_of(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert refused(batch) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)


def test_a_transactional_batch_needs_a_producer() -> None:
    batch = batch_of(transactional=True)
    assert refused(batch, transactional_id_given=True) == (ErrorCode.INVALID_RECORD, None)


def test_a_batch_over_the_limit_is_too_large() -> None:
    batch = batch_of()
    assert admitted(batch, AdmissionRules(message_bytes_max=len(batch)))
    limit = AdmissionRules(message_bytes_max=len(batch) - 1)
    assert refused(batch, limit) == (ErrorCode.MESSAGE_TOO_LARGE, None)


def test_a_large_batch_is_refused_before_its_checksum_is_computed() -> None:
    batch = altered(batch_of(), crc=1)
    assert refused(batch, AdmissionRules(message_bytes_max=70)) == (
        ErrorCode.MESSAGE_TOO_LARGE,
        None,
    )


# Times


def test_a_record_may_be_an_hour_early_and_no_more() -> None:
    assert admitted(batch_of(NOW_MS, NOW_MS + HOUR_MS))
    late = batch_of(NOW_MS, NOW_MS + HOUR_MS + 1, NOW_MS)
    assert refused(late) == (ErrorCode.INVALID_TIMESTAMP, 1)


def test_a_record_may_be_as_old_as_it_likes_unless_the_topic_says_otherwise() -> None:
    assert admitted(batch_of(0, 1))
    rules = AdmissionRules(timestamp_before_max_ms=1000)
    assert admitted(batch_of(NOW_MS, NOW_MS - 1000), rules)
    assert refused(batch_of(NOW_MS, NOW_MS, NOW_MS - 1001), rules) == (
        ErrorCode.INVALID_TIMESTAMP,
        2,
    )


def test_a_record_without_a_time_is_neither_early_nor_late() -> None:
    rules = AdmissionRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000)
    assert admitted(batch_of(-1, NOW_MS), rules)


def test_a_max_timestamp_that_no_record_has_is_refused_too() -> None:
    batch = altered(batch_of(), max_timestamp=NOW_MS + HOUR_MS + 1)
    assert refused(batch) == (ErrorCode.INVALID_TIMESTAMP, None)


def test_on_a_topic_with_append_times_the_clients_times_do_not_matter() -> None:
    rules = AdmissionRules(log_append_time=True, timestamp_before_max_ms=0)
    assert admitted(batch_of(0, NOW_MS + 5 * HOUR_MS), rules)


@pytest.mark.parametrize("log_append_time", [False, True])
def test_append_times_are_not_a_clients_to_set(log_append_time: bool) -> None:
    batch = batch_of(log_append_time_ms=NOW_MS)
    rules = AdmissionRules(log_append_time=log_append_time)
    assert refused(batch, rules) == (ErrorCode.INVALID_TIMESTAMP, None)


# Keys


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compacted_topic_names_the_first_record_without_a_key(codec: Codec) -> None:
    keys = (b"a", b"", None, b"b", None)
    records = [Record(offset, NOW_MS, key, None) for offset, key in enumerate(keys)]
    batch = build(records, codec=codec)
    assert refused(batch, COMPACTED) == (ErrorCode.INVALID_RECORD, 2)
    assert admitted(batch)


def test_a_compacted_topic_does_not_unfold_a_bomb() -> None:
    batch = build([Record(0, NOW_MS, b"k", bytes(1 << 20))], codec=Codec.ZSTD)
    rules = AdmissionRules(compacted=True, decompressed_bytes_max=1 << 16)
    with pytest.raises(PeerError) as error:
        admit(memoryview(batch), rules, transactional_id_given=False, now_ms=NOW_MS)
    assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_compacted_topic_does_not_take_records_that_cannot_be_read() -> None:
    batch = altered(batch_of(), count=1, last_offset_delta=0)
    with pytest.raises(PeerError) as error:
        admit(memoryview(batch), COMPACTED, transactional_id_given=False, now_ms=NOW_MS)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE


# Whatever comes


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    st.integers(0, 200),
    st.booleans(),
)
def test_whatever_comes_is_taken_or_refused_with_a_code(
    changes: list[tuple[int, int]], size: int, crc_fits: bool
) -> None:
    batch = batch_of(NOW_MS, NOW_MS, NOW_MS, codec=Codec.LZ4)
    for at, value in changes:
        batch[at % len(batch)] = value
    batch = batch[: max(size, 61)]
    if crc_fits:
        batch = altered(batch)
    for rules in (RULES, COMPACTED, AdmissionRules(timestamp_before_max_ms=5)):
        # Anything but a PeerError is our own fault, and fails the test.
        with contextlib.suppress(PeerError):
            header = admit(memoryview(batch), rules, transactional_id_given=True, now_ms=NOW_MS)
            assert header.count == header.last_offset_delta + 1
            assert header.size == len(batch)


# What Kafka answered

# Of the topic that was compacted, in the version that has no names.
COMPACTED_TOPIC_ID = "Scf0MsETRZmgqDTUBzj78w"
# What the batch itself decides; the rest depends on the log, the topic or the session.
BY_ADMISSION = {
    ErrorCode.NONE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_RECORD,
}


def recorded_batches() -> list[Any]:
    """Every batch that a recorded client sent, and how Kafka answered."""
    found = []
    with gzip.open(WIRE / "0-Produce.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            pair = json.loads(line)
            if pair["response"] is None:
                continue
            answers = {
                (topic.get("name") or topic.get("topicId"), answer["index"]): answer
                for topic in pair["responseJson"]["responses"]
                for answer in topic["partitionResponses"]
            }
            for topic in pair["requestJson"]["topicData"]:
                name = topic.get("name") or topic.get("topicId")
                for partition in topic["partitionData"]:
                    answer = answers[name, partition["index"]]
                    if answer["errorCode"] in BY_ADMISSION:
                        transactional_id = pair["requestJson"].get("transactionalId")
                        found.append((name, transactional_id, partition["records"], answer))
    return found


def test_recorded_batches_are_taken_and_refused_as_kafka_did() -> None:
    codes: dict[int, int] = {}
    for name, transactional_id, encoded, answer in recorded_batches():
        batch = base64.b64decode(encoded)
        is_compacted = name.startswith("vec-compact") or name == COMPACTED_TOPIC_ID
        rules = AdmissionRules(compacted=is_compacted)
        given_id = transactional_id is not None
        code = answer["errorCode"]
        if code == ErrorCode.NONE:
            assert admitted(batch, rules, transactional_id_given=given_id)
        else:
            found, record_index = refused(batch, rules, transactional_id_given=given_id)
            assert found == code
            blamed = [record["batchIndex"] for record in answer.get("recordErrors", ())]
            if blamed:
                assert record_index == blamed[0]
        codes[code] = codes.get(code, 0) + 1
    assert codes == {0: 32, 2: 10, 32: 1, 53: 10, 87: 11}
