"""Columns have the same content as the records of their batches; damage is the peer's fault."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.arrow.columns import ColumnLimits, fetched_columns
from ottla.client.reading.fetch import Aborted, Fetched
from ottla.client.reading.visible_records import UnreadableBatch, visible, whole_batches
from ottla.errors import PeerError
from ottla.protocol.batch import CorruptBatch, Marker, MarkerKind, Record, build, build_marker
from ottla.protocol.compression import Codec
from tests.property.test_batch import damage, rising_records
from tests.support.native_modules import KINDS, load
from tests.unit.native.test_columns import ALL, END, rows_of

repeatable = settings(derandomize=True, deadline=None)


def as_rows(taken: list[Record]) -> list[tuple[Any, ...]]:
    """Records in the form of columns: timestamps beyond microseconds are clamped."""
    furthest = (2**63 - 1) // 1000
    return [
        tuple(each._replace(timestamp=max(-furthest - 1, min(furthest, each.timestamp))))
        for each in taken
    ]


def read(
    fetched: bytes, aborted: tuple[Aborted, ...], first: int, end: int, limits: ColumnLimits
) -> list[Any]:
    found = Fetched(memoryview(fetched), aborted)
    batches = list(whole_batches(found.records))
    return list(fetched_columns(found, batches, first, end, ALL, limits, refuse))


def refuse(batch: UnreadableBatch) -> None:
    raise CorruptBatch(0, batch.reason)


@st.composite
def fetches(draw: st.DrawFn) -> tuple[bytes, tuple[Aborted, ...]]:
    """Batches of several producers, whose transactions commit or abort."""
    fetched, aborted, offset = b"", [], draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 4))):
        producer_id = draw(st.integers(-1, 2))
        taken = draw(rising_records())
        moved = [each._replace(offset=each.offset - taken[0].offset + offset) for each in taken]
        fetched += build(
            moved,
            base_offset=offset,
            codec=draw(st.sampled_from(Codec)),
            producer_id=producer_id,
            transactional=producer_id >= 0,
            log_append_time_ms=draw(st.none() | st.integers(0, 2**40)),
        )
        end = moved[-1].offset + 1
        if producer_id >= 0:
            kind = draw(st.sampled_from(MarkerKind))
            if kind is MarkerKind.ABORT:
                aborted.append(Aborted(producer_id, offset))
            fetched += build_marker(
                Marker(kind, 0),
                producer_id=producer_id,
                producer_epoch=0,
                timestamp_ms=0,
                base_offset=end,
            )
            end += 1
        offset = end + draw(st.integers(0, 3))
    return fetched, tuple(aborted)


@repeatable
@given(
    fetches(),
    st.integers(0, 900),
    st.integers(0, 900),
    st.builds(ColumnLimits, st.integers(1, 9), st.integers(0, 300)),
)
def test_columns_are_what_a_reader_sees(
    fetch: tuple[bytes, tuple[Aborted, ...]], skipped: int, length: int, limits: ColumnLimits
) -> None:
    fetched, aborted = fetch
    first = next(whole_batches(memoryview(fetched)))[1].base_offset + skipped
    seen = visible(memoryview(fetched), aborted, first).records
    expected = as_rows([each for each in seen if each.offset < first + length])
    found = read(fetched, aborted, first, first + length, limits)
    assert [row for columns in found for row in rows_of(columns)] == expected
    assert all(0 < columns.row_count <= limits.rows_max for columns in found)


@repeatable
@given(st.data(), fetches())
def test_damaged_fetches_are_the_peers_fault(
    data: st.DataObject, fetch: tuple[bytes, tuple[Aborted, ...]]
) -> None:
    fetched, aborted = fetch
    damaged = data.draw(damage(fetched))
    try:
        found = read(damaged, aborted, 0, END, ColumnLimits())
    except PeerError:
        return
    # The checksum does not cover offsets, and does not protect against missing batches.
    assert all(columns.row_count > 0 for columns in found)


@pytest.mark.parametrize("kind", KINDS)
@repeatable
@given(data=st.data(), taken=rising_records(), base=st.integers(-(2**63), 2**63 - 1))
def test_records_and_columns_agree_on_what_is_sound(
    kind: str, data: st.DataObject, taken: list[Record], base: int
) -> None:
    columns, scan = load("columns", kind), load("scan", "interpreted")
    encoded = load("build", "interpreted").encode_rows(taken, taken[0].offset, taken[0].timestamp)
    body = data.draw(st.just(bytes(encoded.body)) | damage(bytes(encoded.body)))
    count = data.draw(st.just(len(taken)) | st.integers(0, 50))
    stamped = data.draw(st.booleans())
    rows = columns.Rows(ALL, 100, 1 << 20, -(2**63), 2**63 - 1)
    try:
        expected, end = scan.read_rows(body, 0, count, base, base, stamped)
        scan.check_end(end, len(body))
    except ValueError:
        with pytest.raises(ValueError, match=r"^byte \d+: "):
            rows.take(body, 0, len(body), count, base, base, stamped)
        return
    assert rows.take(body, 0, len(body), count, base, base, stamped) == (len(body), 0)
    found = rows.columns()
    # The largest possible offset lies after every end.
    kept = [Record(*row) for row in expected if row[0] < 2**63 - 1]
    assert rows_of(found) == as_rows(kept)
    assert found.row_count == len(kept)
