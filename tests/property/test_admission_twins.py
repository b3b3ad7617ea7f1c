"""The leader's checks in Python and their native twin say the same of every batch.

`admit` is the rule. The twin answers for topics that store batches as they came, and leaves a batch
to the rule (UNDECIDED) only where the rule has to decompress it or to correct its header. Then the
same batches go through the product: an append that asks the twin first, one that asks the rule
alone, and one that joins batches end alike, with the same answers and the same log.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings

from ottla.errors import ErrorCode, PeerError
from ottla.native import admission as native_admission
from ottla.native.admission import ACCEPTED, UNDECIDED
from ottla.protocol.batch import BatchHeader, Record, build, read_header
from ottla.protocol.compression import Codec
from ottla.replication.append.appender import RefusedByLog
from ottla.replication.replica import Replica
from ottla.storage.admission.leader_checks import RecordFault, admit, admits_unchanged
from ottla.storage.admission.rules import UNLIMITED_MS, AdmissionRules
from tests.support.forged_batches import NOW_MS, forged, forged_batches, sent_batches
from tests.support.native_modules import KINDS, load
from tests.support.replication.partitions import RULES, Partitions

UNCHANGING_TOPICS = {
    "defaults": AdmissionRules(),
    "small batches": AdmissionRules(message_bytes_max=80),
    "no late records": AdmissionRules(timestamp_after_max_ms=0),
    "any time": AdmissionRules(timestamp_after_max_ms=UNLIMITED_MS),
    "few decompressed bytes": AdmissionRules(decompressed_bytes_max=1050),
}
OTHER_TOPICS = {
    "compacted": AdmissionRules(compacted=True),
    "no old records": AdmissionRules(timestamp_before_max_ms=1000),
    "log append time": AdmissionRules(log_append_time=True),
    "zstd": AdmissionRules(codec=Codec.ZSTD),
    "uncompressed": AdmissionRules(codec=Codec.NONE),
    "all at once": AdmissionRules(
        compacted=True,
        timestamp_before_max_ms=1000,
        log_append_time=True,
        codec=Codec.GZIP,
        message_bytes_max=100,
        decompressed_bytes_max=100,
    ),
}
TOPICS = UNCHANGING_TOPICS | OTHER_TOPICS
SEEDS = range(200 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 4)
BATCHES_PER_SEED = 1500
BATCHES_PER_LOG = 60
many = settings(derandomize=True, deadline=None, max_examples=100)
CODES = {
    name: value for name, value in vars(native_admission).items() if name in ErrorCode.__members__
}

SOUND = build([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS - 5, None, None)])
LATE_MS = NOW_MS + 3_600_001
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
EDGES = {
    "sound": SOUND,
    "as many records as a reader holds": forged(b"", Codec.ZSTD, count=150),
    "one record more": forged(b"", Codec.ZSTD, count=151),
    "records that fit the bytes that came": forged(bytes(1200), Codec.ZSTD, count=160),
    "a late claim": forged(bytes(SOUND[61:]), max_timestamp=LATE_MS),
    "a late claim, compressed": forged(b"", Codec.ZSTD, max_timestamp=LATE_MS),
    "a late record": build([Record(0, LATE_MS, None, None)]),
    "a late record, compressed": build([Record(0, LATE_MS, None, None)], codec=Codec.GZIP),
    "a record in time": build([Record(0, LATE_MS - 1, None, None)]),
    "a record from before all limits": forged(
        bytes(SOUND[61:]), base_timestamp=-(2**63), max_timestamp=-1
    ),
    "a flag without a meaning": forged(bytes(SOUND[61:]), attributes=0x100),
    "a codec without a meaning": forged(bytes(SOUND[61:]), attributes=5),
    "a header alone": forged(b""),
    "a transactional batch": build([Record(0, NOW_MS, None, None)], **PRODUCER, transactional=True),
    "a transactional batch without a producer": build(
        [Record(0, NOW_MS, None, None)], transactional=True
    ),
    "a control batch": build(
        [Record(0, NOW_MS, None, None)], **PRODUCER, transactional=True, control=True
    ),
    "a transactional batch with the broker's time": build(
        [Record(0, NOW_MS, None, None)], **PRODUCER, transactional=True, log_append_time_ms=NOW_MS
    ),
}


class Outcome(NamedTuple):
    """What the rule makes of a batch."""

    code: ErrorCode
    stored: bytes = b""
    header: BatchHeader | None = None
    append_time_ms: int = -1


def by_rule(batch: bytearray, rules: AdmissionRules, transactional_id_given: bool) -> Outcome:
    sent = memoryview(bytearray(batch))
    try:
        taken = admit(sent, rules, transactional_id_given=transactional_id_given, now_ms=NOW_MS)
    except PeerError as error:
        return Outcome(error.code)
    return Outcome(ErrorCode.NONE, bytes(taken.batch), taken.header, taken.append_time_ms)


def expected_verdict(batch: bytearray, rules: AdmissionRules, transactional_id_given: bool) -> int:
    """The verdict that the rule implies, on a topic that stores batches as they came."""
    header = read_header(batch)
    if header.codec and header.max_timestamp > NOW_MS + rules.timestamp_after_max_ms:
        # The rule decompresses it, unless it fails one of the checks before that.
        without_limit = replace(rules, timestamp_after_max_ms=UNLIMITED_MS)
        code = by_rule(batch, without_limit, transactional_id_given).code
        return code if code else UNDECIDED
    outcome = by_rule(batch, rules, transactional_id_given)
    if outcome.code:
        return outcome.code
    if outcome.stored != batch:
        return UNDECIDED
    assert outcome.header == header
    assert outcome.append_time_ms == -1
    return ACCEPTED


def verdict(
    kind: str, batch: bytearray, rules: AdmissionRules, transactional_id_given: bool
) -> int:
    checks = load("admission", kind).BatchChecks(
        rules.message_bytes_max, rules.timestamp_after_max_ms, rules.decompressed_bytes_max
    )
    header = read_header(batch)
    found = checks.verdict(memoryview(batch), header, transactional_id_given, NOW_MS)
    assert isinstance(found, int)
    return found


def check(batch: bytearray) -> set[int]:
    """The verdicts of the twin on every topic, if they are those of the rule."""
    found: set[int] = set()
    for rules, given_id in product(UNCHANGING_TOPICS.values(), (False, True)):
        wanted = expected_verdict(batch, rules, given_id)
        for kind in KINDS:
            before = bytes(batch)
            assert verdict(kind, batch, rules, given_id) == wanted
            assert bytes(batch) == before, "the twin changes no batch"
        accepted = admits_unchanged(memoryview(batch), read_header(batch), rules, given_id, NOW_MS)
        assert accepted == (wanted == ACCEPTED)
        found.add(wanted)
    return found


@pytest.mark.parametrize("batch", EDGES.values(), ids=EDGES)
def test_the_twin_gives_the_verdict_of_the_rule_at_the_edges(batch: bytearray) -> None:
    assert check(batch)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_twin_gives_the_verdict_of_the_rule(seed: int) -> None:
    reached: set[int] = set()
    for batch in sent_batches(seed, BATCHES_PER_SEED):
        reached |= check(batch)
    # Batches that all fail the first check would compare nothing.
    assert reached == {ACCEPTED, UNDECIDED, *CODES.values()}


@many
@given(batch=forged_batches())
def test_the_twin_gives_the_verdict_of_the_rule_on_forged_records(batch: bytearray) -> None:
    assert check(batch)


@pytest.mark.parametrize("rules", OTHER_TOPICS.values(), ids=OTHER_TOPICS)
def test_topics_that_look_at_records_or_change_batches_have_no_twin(rules: AdmissionRules) -> None:
    assert rules.native_checks is None
    assert not admits_unchanged(memoryview(SOUND), read_header(SOUND), rules, False, NOW_MS)


def test_the_twin_has_kafkas_codes() -> None:
    assert {name: ErrorCode[name] for name in CODES} == CODES
    assert len(CODES) == 6


# The same batches through the product


class Answer(NamedTuple):
    code: ErrorCode
    message: str = ""
    record_faults: tuple[RecordFault, ...] = ()
    first_offset: int = -1
    append_time_ms: int = -1
    record_count: int = 0


class Leader:
    """The leader of one partition, on a disk of its own."""

    def __init__(self, rules: AdmissionRules) -> None:
        self.partitions = Partitions(replace(RULES, admission=rules))
        self.replica: Replica = self.partitions.create()

    def append(self, sent: bytearray, *, asks_twin: bool) -> Answer:
        batch = memoryview(bytearray(sent))
        try:
            result = self.partitions.appender.append(
                self.replica,
                batch,
                acks=1,
                transactional_id_given=False,
                now_ms=NOW_MS,
                header=read_header(sent) if asks_twin else None,
            )
        except PeerError as error:
            faults = error.record_faults if isinstance(error, RefusedByLog) else ()
            return Answer(error.code, str(error), faults)
        return Answer(
            ErrorCode.NONE,
            first_offset=result.first_offset,
            append_time_ms=result.log_append_time_ms,
            record_count=result.record_count,
        )

    def append_together(self, sent: list[bytearray]) -> list[Answer]:
        batches = [(memoryview(bytearray(each)), read_header(each)) for each in sent]
        joint = self.partitions.appender.append_together(self.replica, batches, now_ms=NOW_MS)
        if joint is None:
            return [self.append(each, asks_twin=True) for each in sent]
        return [
            Answer(ErrorCode.NONE, first_offset=offset, record_count=read_header(each).count)
            for offset, each in zip(joint.first_offsets, sent, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        log = self.replica.log
        if log is None:
            return {}
        files = self.partitions.disk.files()
        return {
            "end offset": log.end_offset,
            "high watermark": self.replica.high_watermark,
            "largest timestamps": [each.largest_timestamp for each in log.segments],
            "files": {path: files[path] for path in files if path.endswith(".log")},
        }


@pytest.mark.parametrize("rules", TOPICS.values(), ids=TOPICS)
def test_every_way_to_append_ends_alike(rules: AdmissionRules) -> None:
    for seed in SEEDS:
        by_twin, by_rule_alone, joined = Leader(rules), Leader(rules), Leader(rules)
        # The first append makes the log, which a joint append needs.
        for leader in (by_twin, by_rule_alone, joined):
            leader.append(SOUND, asks_twin=False)
        for sent in batched(sent_batches(seed, BATCHES_PER_LOG), 3):
            answers = [by_twin.append(each, asks_twin=True) for each in sent]
            assert answers == [by_rule_alone.append(each, asks_twin=False) for each in sent]
            assert answers == joined.append_together(sent)
        assert by_twin.state() == by_rule_alone.state() == joined.state()


def batched(sent: Iterator[bytearray], size: int) -> Iterator[list[bytearray]]:
    """Of a few sorts: with SOUND in front, or nothing but sound ones, which are joined."""
    while together := list(islice(sent, size)):
        yield together
        yield [SOUND, *together]
        yield [SOUND] * size
