import base64
import contextlib
import gzip
import json
from struct import Struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import Record, build, crc_is_valid, crc_of, read_header, records
from ottla.protocol.compression import Codec, compress
from ottla.storage.admission.leader_checks import (
    RECORD_ERRORS_MAX,
    Refused,
    admit,
    admits_unchanged,
)
from ottla.storage.admission.rules import AdmissionRules
from ottla.storage.admission.work_budget import BudgetSpent, WorkBudget
from tests.support.paths import VECTORS

NOW_MS = 1_794_780_313_228
HOUR_MS = 3_600_000
HEADER = Struct(">qiibIhiqqqhii")
RULES = AdmissionRules()
COMPACTED = AdmissionRules(compacted=True)
WIRE = VECTORS / "wire"


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
) -> tuple[ErrorCode, list[int]]:
    """The code, and the places of the records at fault."""
    with pytest.raises(Refused) as error:
        admit(
            memoryview(batch),
            rules,
            transactional_id_given=transactional_id_given,
            now_ms=NOW_MS,
        )
    return error.value.code, [fault.number for fault in error.value.record_faults]


def admitted(
    batch: bytes | bytearray,
    rules: AdmissionRules = RULES,
    *,
    transactional_id_given: bool = False,
) -> bool:
    """Whether it is taken, and as it was."""
    taken = admit(
        memoryview(bytearray(batch)),
        rules,
        transactional_id_given=transactional_id_given,
        now_ms=NOW_MS,
    )
    return taken.header == read_header(taken.batch) and bytes(taken.batch) == bytes(batch)


def stored(batch: bytes | bytearray, rules: AdmissionRules) -> bytearray:
    """The batch as it is appended."""
    taken = admit(memoryview(bytearray(batch)), rules, transactional_id_given=False, now_ms=NOW_MS)
    assert taken.header == read_header(taken.batch)
    assert crc_is_valid(taken.batch, taken.header)
    return bytearray(taken.batch)


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


# What is no batch, or not one


def test_no_batch_at_all_is_an_invalid_record() -> None:
    for size in range(12):
        assert refused(bytes(size)) == (ErrorCode.INVALID_RECORD, [])


def test_garbage_is_corrupt() -> None:
    assert refused(bytes(20)) == (ErrorCode.CORRUPT_MESSAGE, [])
    assert refused(b"\xff" * 80) == (ErrorCode.CORRUPT_MESSAGE, [])
    assert refused(altered(batch_of(), magic=3)) == (ErrorCode.CORRUPT_MESSAGE, [])
    assert refused(altered(batch_of(), magic=-1)) == (ErrorCode.CORRUPT_MESSAGE, [])


def test_two_batches_are_one_too_many() -> None:
    assert refused(batch_of() + batch_of()) == (ErrorCode.INVALID_RECORD, [])
    assert refused(batch_of() + b"\0") == (ErrorCode.INVALID_RECORD, [])


def test_a_batch_that_is_cut_short_is_none() -> None:
    batch = batch_of()
    for size in range(17, len(batch)):
        assert refused(batch[:size]) == (ErrorCode.INVALID_RECORD, [])


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_not_taken(magic: int) -> None:
    assert refused(altered(batch_of(), magic=magic)) == (ErrorCode.INVALID_RECORD, [])


def test_a_batch_smaller_than_its_header_is_corrupt() -> None:
    short = altered(batch_of(), length=40)[:52]
    assert refused(short) == (ErrorCode.CORRUPT_MESSAGE, [])


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
    assert refused(altered(batch_of(), crc=1)) == (ErrorCode.CORRUPT_MESSAGE, [])


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
    assert refused(batch, transactional_id_given=True) == (ErrorCode.INVALID_RECORD, [])


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    batch = altered(batch_of(), attributes=codec)
    assert refused(batch) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, [])


def test_a_transactional_batch_needs_a_transactional_id_in_the_request() -> None:
    batch = batch_of(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert refused(batch) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, [])


def test_a_transactional_batch_needs_a_producer() -> None:
    batch = batch_of(transactional=True)
    assert refused(batch, transactional_id_given=True) == (ErrorCode.INVALID_RECORD, [])


def test_a_batch_over_the_limit_is_too_large() -> None:
    batch = batch_of()
    assert admitted(batch, AdmissionRules(message_bytes_max=len(batch)))
    limit = AdmissionRules(message_bytes_max=len(batch) - 1)
    assert refused(batch, limit) == (ErrorCode.MESSAGE_TOO_LARGE, [])


def test_a_large_batch_is_refused_before_its_checksum_is_computed() -> None:
    batch = altered(batch_of(), crc=1)
    assert refused(batch, AdmissionRules(message_bytes_max=70)) == (
        ErrorCode.MESSAGE_TOO_LARGE,
        [],
    )


# Times


def test_a_record_may_be_an_hour_early_and_no_more() -> None:
    assert admitted(batch_of(NOW_MS, NOW_MS + HOUR_MS))
    late = batch_of(NOW_MS, NOW_MS + HOUR_MS + 1, NOW_MS)
    assert refused(late) == (ErrorCode.INVALID_TIMESTAMP, [1])


def test_a_record_may_be_as_old_as_it_likes_unless_the_topic_says_otherwise() -> None:
    assert admitted(batch_of(0, 1))
    rules = AdmissionRules(timestamp_before_max_ms=1000)
    assert admitted(batch_of(NOW_MS, NOW_MS - 1000), rules)
    assert refused(batch_of(NOW_MS, NOW_MS, NOW_MS - 1001), rules) == (
        ErrorCode.INVALID_TIMESTAMP,
        [2],
    )


def test_a_record_without_a_time_is_neither_early_nor_late() -> None:
    rules = AdmissionRules(timestamp_before_max_ms=1000, timestamp_after_max_ms=1000)
    assert admitted(batch_of(-1, NOW_MS), rules)


@pytest.mark.parametrize("claimed_ms", [0, -1, NOW_MS + 1, NOW_MS + HOUR_MS + 1, 2**63 - 1])
def test_a_max_timestamp_that_no_record_has_is_put_right(claimed_ms: int) -> None:
    batch = batch_of(NOW_MS, NOW_MS - 5)
    lie = altered(batch, max_timestamp=claimed_ms)
    assert stored(lie, RULES) == batch
    assert not admits_unchanged(memoryview(lie), read_header(lie), RULES, False, NOW_MS)


def test_a_compressed_batch_that_claims_the_future_is_unfolded_and_put_right() -> None:
    batch = batch_of(NOW_MS, NOW_MS - 5, codec=Codec.ZSTD)
    assert stored(altered(batch, max_timestamp=NOW_MS + HOUR_MS + 1), RULES) == batch


def test_on_a_topic_with_append_times_the_clients_times_do_not_matter() -> None:
    rules = AdmissionRules(log_append_time=True, timestamp_before_max_ms=0)
    taken = stored(batch_of(0, NOW_MS + 5 * HOUR_MS), rules)
    assert [record.timestamp for record in records(taken)] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize("log_append_time", [False, True])
def test_append_times_are_not_a_clients_to_set(log_append_time: bool) -> None:
    batch = batch_of(log_append_time_ms=NOW_MS)
    rules = AdmissionRules(log_append_time=log_append_time)
    assert refused(batch, rules) == (ErrorCode.INVALID_TIMESTAMP, [])


# Keys


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compacted_topic_names_the_records_without_a_key(codec: Codec) -> None:
    keys = (b"a", b"", None, b"b", None)
    records = [Record(offset, NOW_MS, key, None) for offset, key in enumerate(keys)]
    batch = build(records, codec=codec)
    assert refused(batch, COMPACTED) == (ErrorCode.INVALID_RECORD, [2, 4])
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
    assert error.value.code is ErrorCode.INVALID_RECORD


def test_a_batch_with_a_wrong_time_and_a_missing_key_names_both_records() -> None:
    keys_and_times = [(None, NOW_MS), (b"k", NOW_MS), (b"k", NOW_MS + 2 * HOUR_MS)]
    batch = build([Record(n, time, key, b"") for n, (key, time) in enumerate(keys_and_times)])
    assert refused(batch, COMPACTED) == (ErrorCode.INVALID_TIMESTAMP, [0, 2])


def test_no_more_than_a_thousand_records_are_named() -> None:
    batch = build([Record(n, NOW_MS, None, b"") for n in range(RECORD_ERRORS_MAX + 5)])
    code, named = refused(batch, COMPACTED)
    assert code is ErrorCode.INVALID_RECORD
    assert named == list(range(RECORD_ERRORS_MAX))


# The structure of records


def with_body(body: bytes, count: int, codec: Codec = Codec.NONE, **fields: int) -> bytearray:
    """A batch whose header and checksum are right, whatever its records are."""
    forged = batch_of(*[NOW_MS] * count)[:61] + (compress(codec, body) if codec else body)
    return altered(forged, length=len(forged) - 12, attributes=codec, **fields)


GARBAGE = {
    "nothing": b"",
    "zeros": bytes(50),
    "a record that runs past the end": b"\xfe\x01" + bytes(20),
    "a varint that does not end": b"\xff" * 12,
    "records that are numbered wrongly": bytes(build([Record(0, NOW_MS, b"k", b"v")])[61:]) * 2,
    "one record less than is said": bytes(batch_of(NOW_MS)[61:]),
    "one record more than is said": bytes(batch_of(NOW_MS, NOW_MS, NOW_MS)[61:]),
}


@pytest.mark.parametrize("rules", [RULES, COMPACTED, AdmissionRules(codec=Codec.ZSTD)])
@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
def test_records_that_nobody_could_read_are_refused(body: bytes, rules: AdmissionRules) -> None:
    batch = with_body(body, 2)
    assert refused(batch, rules) == (ErrorCode.INVALID_RECORD, [])
    header = read_header(batch)
    assert not admits_unchanged(memoryview(batch), header, rules, False, NOW_MS)


def test_a_time_past_64_bits_is_refused() -> None:
    batch = altered(batch_of(NOW_MS, NOW_MS + 5), base_timestamp=2**63 - 2, max_timestamp=0)
    assert refused(batch) == (ErrorCode.INVALID_RECORD, [])


def test_compressed_records_are_looked_at_only_where_a_topic_needs_it() -> None:
    batch = with_body(b"garbage", 2, Codec.ZSTD)
    assert admitted(batch)
    assert refused(batch, COMPACTED) == (ErrorCode.INVALID_RECORD, [])


def test_an_ordinary_batch_is_taken_by_every_way() -> None:
    for batch in (batch_of(), batch_of(codec=Codec.LZ4), batch_of(-1, -1), batch_of(5, NOW_MS)):
        header = read_header(batch)
        assert admits_unchanged(memoryview(batch), header, RULES, False, NOW_MS)
        assert admitted(batch)


# The codec of a topic


@pytest.mark.parametrize("sent", list(Codec))
@pytest.mark.parametrize("wanted", list(Codec))
def test_batches_are_stored_with_the_codec_of_their_topic(sent: Codec, wanted: Codec) -> None:
    taken = [Record(n, NOW_MS + n, b"k", b"value" * 50, (("h", b"x"),)) for n in range(20)]
    batch = build(taken, codec=sent, producer_id=4, producer_epoch=1, base_sequence=9)
    found = stored(batch, AdmissionRules(codec=wanted))
    header = read_header(found)
    assert header.codec == wanted
    assert list(records(found)) == taken
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 9)
    assert (header.count, header.max_timestamp) == (20, NOW_MS + 19)
    if sent == wanted:
        assert found == batch


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_higher_level_makes_smaller_batches(codec: Codec) -> None:
    words = [b"%d" % (n * n % 977) for n in range(4000)]
    batch = build([Record(0, NOW_MS, b"k", b" ".join(words))])
    sizes = [
        len(stored(batch, AdmissionRules(codec=codec, compression_level=level)))
        for level in (1, 19 if codec is Codec.ZSTD else 9)
    ]
    assert sizes[1] < sizes[0]


def test_a_batch_that_grows_past_the_limit_by_its_topics_codec_is_too_large() -> None:
    batch = build([Record(0, NOW_MS, b"k", bytes(10_000))], codec=Codec.ZSTD)
    rules = AdmissionRules(codec=Codec.NONE, message_bytes_max=5_000)
    assert refused(batch, rules) == (ErrorCode.MESSAGE_TOO_LARGE, [])


def test_an_append_time_is_stamped_into_what_the_topics_codec_made() -> None:
    rules = AdmissionRules(codec=Codec.GZIP, log_append_time=True)
    found = stored(batch_of(1, 2), rules)
    assert read_header(found).codec == Codec.GZIP
    assert [record.timestamp for record in records(found)] == [NOW_MS, NOW_MS]


# Bounded work


def test_a_batch_that_unfolds_beyond_the_budget_is_left_for_later() -> None:
    batch = build([Record(0, NOW_MS, b"k", bytes(1 << 20))], codec=Codec.ZSTD)
    budget = WorkBudget(1 << 16)
    with pytest.raises(BudgetSpent):
        admit(
            memoryview(batch), COMPACTED, transactional_id_given=False, now_ms=NOW_MS, budget=budget
        )
    assert budget.units_left == 0
    with pytest.raises(BudgetSpent):
        admit(
            memoryview(batch_of(codec=Codec.ZSTD)),
            COMPACTED,
            transactional_id_given=False,
            now_ms=NOW_MS,
            budget=budget,
        )
    assert admitted(batch, COMPACTED)


def test_a_bomb_is_refused_however_large_the_budget_is() -> None:
    batch = build([Record(0, NOW_MS, b"k", bytes(1 << 20))], codec=Codec.ZSTD)
    rules = AdmissionRules(compacted=True, decompressed_bytes_max=1 << 16)
    with pytest.raises(PeerError) as error:
        admit(
            memoryview(batch),
            rules,
            transactional_id_given=False,
            now_ms=NOW_MS,
            budget=WorkBudget(1 << 30),
        )
    assert error.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_budget_pays_for_records_and_for_compression() -> None:
    many = build([Record(n, NOW_MS, b"k", b"") for n in range(5000)])
    for rules, units in ((RULES, 5000 * 8), (AdmissionRules(codec=Codec.ZSTD), 5000 * 8 + 1000)):
        with pytest.raises(BudgetSpent):
            admit(
                memoryview(bytearray(many)),
                rules,
                transactional_id_given=False,
                now_ms=NOW_MS,
                budget=WorkBudget(units - 1),
            )
    budget = WorkBudget(5000 * 8)
    admit(memoryview(many), RULES, transactional_id_given=False, now_ms=NOW_MS, budget=budget)
    assert budget.units_left == 0


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
            taken = admit(memoryview(batch), rules, transactional_id_given=True, now_ms=NOW_MS)
            assert taken.header.count == taken.header.last_offset_delta + 1
            assert taken.header.size == len(taken.batch)


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
            found, faults = refused(batch, rules, transactional_id_given=given_id)
            assert found == code
            if "recordErrors" in answer:
                assert faults == [record["batchIndex"] for record in answer["recordErrors"]]
        codes[code] = codes.get(code, 0) + 1
    assert codes == {0: 32, 2: 10, 32: 1, 53: 10, 87: 11}
