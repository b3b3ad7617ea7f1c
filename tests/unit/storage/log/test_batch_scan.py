"""A walk goes from header to header and stops where the chain breaks."""

import pytest

from ottla.errors import CorruptLog
from ottla.protocol.batch import Marker, MarkerKind, build_marker, records
from ottla.storage.log.batch_scan import BatchWalk
from tests.support.storage.workbench import Workbench, batch_of

BATCHES = [batch_of(*range(1, 2 + n), base_offset=10 * n, value=b"v" * 50) for n in range(6)]
WHOLE = b"".join(BATCHES)


def walk_over(bench: Workbench, content: bytes, window_bytes: int = 8 << 10) -> BatchWalk:
    file = bench.files.create(bench.path("x.log"))
    file.write_at(0, [content])
    return BatchWalk(file, 0, len(content), window_bytes)


@pytest.mark.parametrize("window_bytes", [61, 100, 333, 8 << 10])
def test_every_batch_is_met_whatever_the_window(bench: Workbench, window_bytes: int) -> None:
    walk = walk_over(bench, WHOLE, window_bytes)
    found = []
    for placed in walk:
        assert walk.crc_is_valid(placed)
        found.append(walk.batch(placed))
    assert found == BATCHES
    assert walk.position == len(WHOLE)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda whole: whole[:-1], "last 1 bytes"),
        (lambda whole: whole + b"\0" * 30, "no whole header"),
        (lambda whole: whole + b"\0" * 300, "magic 0"),
        (lambda whole: whole + bytes(BATCHES[0]), "offset 0 comes after"),
        (lambda whole: whole + b"\xff" + bytes(BATCHES[0])[1:], "impossible header"),
    ],
    ids=["cut", "few zeros", "many zeros", "an earlier batch", "a negative offset"],
)
def test_a_broken_chain_is_named_with_file_and_byte(
    bench: Workbench, spoil: object, reason: str
) -> None:
    assert callable(spoil)
    walk = walk_over(bench, spoil(WHOLE))
    with pytest.raises(CorruptLog, match=reason) as broken:
        list(walk)
    assert broken.value.path == bench.path("x.log")
    assert broken.value.position == walk.position <= len(WHOLE)


def test_a_changed_byte_shows_in_the_checksum(bench: Workbench) -> None:
    walk = walk_over(bench, WHOLE[:-1] + b"!")
    assert [walk.crc_is_valid(placed) for placed in walk] == [True] * 5 + [False]


def test_records_and_markers_are_read_where_they_lie(bench: Workbench) -> None:
    marker = build_marker(
        Marker(MarkerKind.ABORT, 4), producer_id=7, producer_epoch=0, timestamp_ms=5, base_offset=90
    )
    walk = walk_over(bench, WHOLE + marker)
    found = [(walk.marker(placed), len(list(records(walk.batch(placed))))) for placed in walk]
    assert found == [*((None, n + 1) for n in range(6)), (Marker(MarkerKind.ABORT, 4), 1)]


def test_a_marker_that_cannot_be_read_is_the_disks_fault(bench: Workbench) -> None:
    marker = build_marker(
        Marker(MarkerKind.ABORT, 4), producer_id=7, producer_epoch=0, timestamp_ms=5
    )
    marker[61:] = b"\xff" * (len(marker) - 61)
    walk = walk_over(bench, bytes(marker))
    placed = next(iter(walk))
    with pytest.raises(CorruptLog):
        walk.marker(placed)
