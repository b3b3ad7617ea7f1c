"""Reading a segment piece by piece: whatever the window, the same batches; damage is told."""

import pytest

from ottla.errors import CorruptLog
from ottla.native.keymap import DISCARD_ALL
from ottla.protocol.batch import HEADER_BYTES, Record, build
from ottla.protocol.compression import Codec
from ottla.storage.log.segment_reader import Piece, UnreadableRecords, pieces
from tests.sim.seams.disk import SimDisk

NOW_MS = 1_700_000_000_000
PATH = "/segment.log"


def batch(offset: int, count: int = 1, codec: Codec = Codec.NONE) -> bytes:
    written = [Record(offset + n, NOW_MS, b"k%d" % n, b"v" * 50) for n in range(count)]
    return bytes(build(written, base_offset=offset, codec=codec))


CONTENT = batch(0, 9) + batch(9) + batch(10, 3, Codec.ZSTD) + batch(13, 2) + batch(15)


def read(content: bytes, window_bytes: int, size_bytes: int | None = None) -> list[Piece]:
    disk = SimDisk(0)
    file = disk.process().create(PATH)
    file.write_at(0, [content])
    size_bytes = len(content) if size_bytes is None else size_bytes
    return list(pieces(file, size_bytes, window_bytes, NOW_MS))


def keys(found: list[Piece]) -> list[int]:
    return [
        offset for piece in found for offset in piece.unfolded(1 << 20).columns().offsets.tolist()
    ]


@pytest.mark.parametrize("window_bytes", [1, HEADER_BYTES, 100, 300, 1 << 20])
def test_every_batch_is_read_once_whatever_the_window(window_bytes: int) -> None:
    found = read(CONTENT, window_bytes)
    assert b"".join(piece.content for piece in found) == CONTENT
    assert keys(found) == list(range(16))
    positions = [piece.position for piece in found]
    assert positions == sorted(positions)
    assert sum(len(piece.batches.verdicts) for piece in found) == 5


def test_plain_batches_come_together_and_a_compressed_one_alone() -> None:
    assert [len(piece.batches.verdicts) for piece in read(CONTENT, 1 << 20)] == [2, 1, 2]


@pytest.mark.parametrize("window_bytes", [1, 300, 1 << 20])
def test_a_damaged_batch_is_named_by_its_position(window_bytes: int) -> None:
    at = len(batch(0, 9)) + len(batch(9))
    damaged = bytearray(CONTENT)
    damaged[at + 65] ^= 1
    with pytest.raises(CorruptLog, match="checksum") as error:
        read(bytes(damaged), window_bytes)
    assert f"{PATH}" in str(error.value)
    assert f"{at}" in str(error.value)


@pytest.mark.parametrize("window_bytes", [1, 100, 1 << 20])
@pytest.mark.parametrize("cut_bytes", [1, 70, 100])
def test_a_batch_that_is_cut_off_is_told(window_bytes: int, cut_bytes: int) -> None:
    with pytest.raises(CorruptLog, match="bytes of this batch are missing"):
        read(CONTENT[:-cut_bytes], window_bytes)


def test_a_file_that_is_shorter_than_its_segment_is_told() -> None:
    with pytest.raises(CorruptLog, match="ends here"):
        read(CONTENT, 1 << 20, size_bytes=len(CONTENT) + 100)


def test_records_that_do_not_unfold_are_told() -> None:
    (piece,) = read(batch(0, 3, Codec.LZ4), 1 << 20)
    with pytest.raises(UnreadableRecords, match="lz4"):
        piece.unfolded(10)


def test_a_piece_is_split_into_its_batches() -> None:
    content = batch(0, 3) + batch(3, 2) + batch(5, 1)
    (piece,) = read(content, 1 << 20)
    piece.batches.transactional_or_control.append(1)
    piece.batches.verdicts[2] = DISCARD_ALL
    split = list(piece.split())
    assert b"".join(bytes(each.content) for each in split) == content
    assert [each.position for each in split] == list(piece.batches.starts)[:3]
    assert [each.batches.next_offset for each in split] == [3, 5, 6]
    assert [each.batches.transactional_or_control for each in split] == [[], [0], []]
    assert [each.batches.verdicts[0] for each in split] == [*piece.batches.verdicts]
