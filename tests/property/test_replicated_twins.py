"""A follower's native reader of batches accepts what the checks in Python accept, and no more."""

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import PeerError
from ottla.protocol.batch import Marker, MarkerKind, Record, build, build_marker, read_header
from ottla.seams.files import RealFiles
from ottla.storage.log import replicated_batches
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from tests.support.native_modules import KINDS, load
from tests.support.protocol.stamping import stamp
from tests.support.storage.workbench import NOW_MS, Workbench, content

CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=200, tail_batches_max=16)


@st.composite
def leaders_batches(draw: st.DrawFn) -> list[bytes]:
    """Consecutive batches of a leader: with producers, markers, new epochs and holes."""
    offset, epoch, found = 0, draw(st.integers(0, 2)), []
    sequences = {1: 0, 2: 0}
    for _ in range(draw(st.integers(1, 14))):
        if draw(st.integers(0, 9)) == 0:
            epoch += draw(st.integers(1, 3))
        if draw(st.integers(0, 9)) == 0:
            offset += draw(st.sampled_from([1, 5, 1000]))
        kind = draw(st.sampled_from(["plain", "plain", "plain", "producer", "marker"]))
        if kind == "marker":
            marker = Marker(draw(st.sampled_from(MarkerKind)), 0)
            made = build_marker(marker, producer_id=2, producer_epoch=0, timestamp_ms=NOW_MS)
            stamp(made, offset, epoch)
        else:
            times = draw(st.lists(st.integers(NOW_MS - 50, NOW_MS + 50), min_size=1, max_size=3))
            value = b"v" * draw(st.integers(0, 200))
            records = [Record(offset + at, time, None, value) for at, time in enumerate(times)]
            producer = draw(st.sampled_from([1, 2])) if kind == "producer" else -1
            made = build(
                records,
                base_offset=offset,
                leader_epoch=epoch,
                producer_id=producer,
                producer_epoch=0 if producer > 0 else -1,
                base_sequence=sequences.get(producer, -1),
                transactional=producer == 2,
            )
            if producer > 0:
                sequences[producer] += len(times)
        found.append(bytes(made))
        offset = read_header(made).next_offset
    return found


@st.composite
def answers(draw: st.DrawFn) -> list[bytes]:
    """What a follower gets in several fetches: cut, damaged or repeated at times."""
    batches, found = draw(leaders_batches()), []
    while batches:
        count = draw(st.integers(1, 8))
        answer = bytearray(b"".join(batches[:count]))
        harm = draw(st.sampled_from(["none", "none", "none", "cut", "flip", "repeat", "field"]))
        if harm == "cut":
            del answer[draw(st.integers(0, len(answer))) :]
        elif harm == "flip":
            answer[draw(st.integers(0, len(answer) - 1))] ^= 1 << draw(st.integers(0, 7))
        elif harm == "repeat":
            answer += batches[0]
        elif harm == "field":
            # Base offset, length, leader epoch, magic, checksum and last offset delta.
            at, size = draw(st.sampled_from([(0, 8), (8, 4), (12, 4), (16, 1), (17, 4), (23, 4)]))
            answer[at : at + size] = draw(st.binary(min_size=size, max_size=size))
        found.append(bytes(answer))
        del batches[:count]
    return found


def append(log: Log, answer: bytes) -> tuple[object, ...] | None:
    try:
        log.append_replicated(answer)
    except PeerError as error:
        return error.code, str(error)
    return None


def state(log: Log) -> tuple[object, ...]:
    return (
        (log.start_offset, log.end_offset, log.messages_unflushed, log.last_written_epoch),
        content(log),
        [tuple(entry) for entry in log.epochs.entries],
        log.producers.first_unstable_offset,
        log.producers.map_end_offset,
        log.aborted_transactions(0, log.end_offset + 1),
        [(each.base_offset, each.size_bytes, each.largest_timestamp) for each in log.segments],
        [each.first_timestamp_ms for each in log.segments],
    )


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@settings(derandomize=True, deadline=None, max_examples=80)
@given(fetches=answers())
def test_a_log_is_the_same_with_and_without_the_native_reader(fetches: list[bytes]) -> None:
    with TemporaryDirectory() as place:
        native = Workbench(RealFiles(), f"{place}/native").open(CONFIG)
        plain = Workbench(RealFiles(), f"{place}/plain").open(CONFIG)
        for answer in fetches:
            outcome = append(native, answer)
            with patch.object(replicated_batches, "read_run", lambda *_: None):
                assert outcome == append(plain, answer)
            assert state(native) == state(plain)
        assert native.producers == plain.producers
        for log in (native, plain):
            log.roll()
        assert files_of(Path(place, "native")) == files_of(Path(place, "plain"))


@pytest.mark.parametrize("kind", KINDS)
@settings(derandomize=True, deadline=None, max_examples=150)
@given(fetches=answers(), position=st.integers(0, 1 << 40), ahead=st.integers(-2, 2))
def test_the_native_reader_takes_the_ordinary_batches_of_the_checks(
    kind: str, fetches: list[bytes], position: int, ahead: int
) -> None:
    for answer in map(memoryview, fetches):
        if len(answer) < 16:
            continue
        end_offset = max(0, int.from_bytes(answer[:8], "big") + ahead) & (2**62 - 1)
        leader_epoch = int.from_bytes(answer[12:16], "big", signed=True)
        batches, _ = replicated_batches.check_all(answer, end_offset)
        ordinary = []
        for each in batches:
            if each.header.is_control or each.header.partition_leader_epoch != leader_epoch:
                break
            ordinary.append(each)
        headers = [each.header for each in ordinary]
        run = load("replicated", kind).read(answer, position, end_offset, leader_epoch)
        assert run == (
            sum(header.size for header in headers),
            [position + each.position for each in ordinary],
            [header.base_offset for header in headers],
            [header.last_offset for header in headers],
            [header.max_timestamp for header in headers],
            sum(header.count for header in headers),
            [tuple(header) for header in headers if header.has_producer],
        )
