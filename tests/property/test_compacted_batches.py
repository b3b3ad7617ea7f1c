"""Compaction retains the same records as a reference implementation.

The reference reads record by record with a plain dictionary; the code under test works on whole
chunks, compiled and interpreted.
"""

from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.native.scan import key_columns
from ottla.protocol.batch import Record, build, compress_records, read_header, records
from ottla.protocol.compression import Codec
from ottla.storage.log.segment_reader import pieces
from tests.sim.seams.disk import SimDisk
from tests.support.native_modules import KINDS, load

NOW_MS = 1_700_000_000_000
HORIZON_MS = NOW_MS + 86_400_000
KEYS = (None, b"", b"a", b"b", b"twelve bytes", b"a key of more than sixteen bytes")

rows = st.tuples(
    st.sampled_from(KEYS),
    st.none() | st.binary(max_size=12),
    st.integers(NOW_MS - 10**9, NOW_MS + 10**9),
    st.booleans(),
)
sent = st.tuples(
    st.lists(rows, max_size=6),
    st.sampled_from(Codec),
    st.none() | st.sampled_from((NOW_MS, NOW_MS + 1)),
    st.none() | st.just(NOW_MS + 5),
    st.integers(0, 3),
)


def written(batches: list[tuple[list[tuple], Codec, int | None, int | None, int]]) -> list[bytes]:
    """Batches with rising offsets, and gaps of earlier compactions."""
    content, offset = [], 0
    for drawn, codec, horizon_ms, stamped_ms, gap in batches:
        kept = [
            Record(offset + index, time_ms, key, value, (("h", value),) if has_header else ())
            for index, (key, value, time_ms, has_header) in enumerate(drawn)
        ]
        content.append(
            bytes(
                build(
                    kept,
                    base_offset=offset,
                    last_offset_delta=len(kept) + gap,
                    codec=codec if kept else Codec.NONE,
                    delete_horizon_ms=horizon_ms if kept else None,
                    log_append_time_ms=stamped_ms,
                )
            )
        )
        offset += len(kept) + gap + 1
    return content


def expected(content: list[bytes], kept: set[int]) -> Iterator[bytes]:
    """The reference: the result for each batch."""
    last: dict[bytes | None, int] = {}
    for batch in content:
        last |= {record.key: record.offset for record in records(batch)}
    for batch in content:
        header = read_header(batch)
        is_over = (header.delete_horizon_ms or HORIZON_MS) <= NOW_MS
        before = list(records(batch))
        left = [
            record
            for record in before
            if record.key is not None
            and last[record.key] == record.offset
            and not (record.value is None and is_over)
        ]
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None and any(record.value is None for record in left):
            horizon_ms = HORIZON_MS
        if left == before and left and horizon_ms == header.delete_horizon_ms:
            yield batch
        elif left or header.last_offset in kept:
            yield rebuilt(batch, left, horizon_ms)


def rebuilt(batch: bytes, left: list[Record], horizon_ms: int | None) -> bytes:
    header = read_header(batch)
    changed = build(
        left,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        codec=Codec(header.codec) if left else Codec.NONE,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
        delete_horizon_ms=horizon_ms if left else None,
    )
    return bytes(changed)


def visible_content(batch: bytes) -> tuple[object, ...]:
    """All visible content of a batch, without the encoding of its timestamps."""
    header = read_header(batch)
    times = (header.delete_horizon_ms, header.max_timestamp if header.count else None)
    place = (header.base_offset, header.last_offset, header.attributes)
    return (*place, *times, tuple(records(batch)))


def split(content: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(content):
        size = read_header(content, position).size
        found.append(content[position : position + size])
        position += size
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(derandomize=True, deadline=None)
@given(st.lists(sent, max_size=8), st.sets(st.integers(0, 40)), st.sampled_from((61, 200, 1 << 20)))
def test_compaction_retains_the_same_records_as_the_reference(
    kind: str,
    batches: list[tuple[list[tuple], Codec, int | None, int | None, int]],
    kept: set[int],
    window_bytes: int,
) -> None:
    content = written(batches)
    left = b"".join(compacted(kind, b"".join(content), kept, window_bytes))
    wanted = list(expected(content, kept))
    assert [visible_content(each) for each in split(left)] == [visible_content(b) for b in wanted]


def compacted(kind: str, content: bytes, kept: set[int], window_bytes: int) -> Iterator[bytes]:
    native: ModuleType = load("batches", kind)
    keys = load("keymap", kind).KeyMap(bytes(16), 1 << 16)
    file = SimDisk(0).process().create("/log")
    file.write_at(0, [content])
    found = [
        (piece, piece.unfolded(1 << 20))
        for piece in pieces(file, len(content), window_bytes, NOW_MS)
    ]
    for _, plain in found:
        assert keys.put(plain.content, plain.columns(), 0)
    for piece, plain in found:
        starts, verdicts = plain.batches.starts, plain.batches.verdicts
        columns = key_columns(plain.content, starts, verdicts)
        stays = keys.mark(plain.content, columns, verdicts)
        left = native.copy_batches(plain.content, starts, columns, stays, kept, HORIZON_MS)
        if not piece.is_compressed or not left.content:
            yield bytes(left.content)
        elif left.changed:
            yield bytes(compress_records(left.content))
        else:
            yield bytes(piece.content)
