"""Frames from chunks of any size, and a limit on the lengths that a peer sends."""

import itertools

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.framing import BadFrameSize, FrameReader, frame
from tests.support.protocol.memory_trace import takes_less_than
from tests.support.protocol.wire_vectors import recorded

SIZE_MAX = 100_000


def _sent(frames: list[bytes]) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in frames)


def _received(chunks: list[bytes], size_max: int = SIZE_MAX) -> list[bytes]:
    reader, frames = FrameReader(size_max), []
    for chunk in chunks:
        reader.feed(chunk)
        frames += [bytes(each) for each in iter(reader.next_frame, None)]
    return frames


def _traffic() -> list[bytes]:
    """Recorded frames of many sizes, including an empty one."""
    return [b"", *(vector.frame for vector in itertools.islice(recorded(), 0, None, 50))]


def test_fifty_frames_in_one_chunk_come_out_in_order() -> None:
    frames = [vector.frame for vector in recorded()[:50]]
    assert _received([_sent(frames)]) == frames


def test_frames_that_arrive_byte_by_byte_are_the_same() -> None:
    frames = _traffic()
    sent = _sent(frames)
    assert _received([sent[at : at + 1] for at in range(len(sent))]) == frames


@pytest.mark.parametrize("size", [2, 3, 5, 7, 64, 1021])
def test_frames_that_are_split_anywhere_are_the_same(size: int) -> None:
    frames = _traffic()
    sent = _sent(frames)
    assert _received([sent[at : at + size] for at in range(0, len(sent), size)]) == frames


def test_a_frame_inside_one_chunk_is_not_copied() -> None:
    reader, chunk = FrameReader(SIZE_MAX), bytearray(_sent([b"whole"]))
    reader.feed(chunk)
    received = reader.next_frame()
    chunk[4:] = b"WHOLE"
    assert received == b"WHOLE"


@pytest.mark.parametrize("sizes", [(40_000,), (40_000, 3), (3, 40_000, 7, 7, 20_000, 1)])
def test_a_frame_of_large_and_small_pieces_is_the_same(sizes: tuple[int, ...]) -> None:
    frames = [bytes(range(256)) * 350, b"", b"small", bytes(SIZE_MAX)]
    sent, chunks = _sent(frames), []
    for size in itertools.cycle(sizes):
        if not sent:
            break
        chunks.append(sent[:size])
        sent = sent[size:]
    assert _received(chunks) == frames


def test_a_frame_that_arrives_in_tiny_pieces_takes_no_more_memory_than_its_bytes() -> None:
    size = 50_000

    def drip() -> None:
        reader = FrameReader(SIZE_MAX)
        reader.feed(size.to_bytes(4, "big"))
        for _ in range(size - 1):
            assert reader.next_frame() is None
            reader.feed(b"x")
        assert reader.next_frame() is None

    assert takes_less_than(3 * size, drip)


def test_a_chunk_is_released_once_its_frames_are_taken() -> None:
    reader, chunk = FrameReader(SIZE_MAX), bytearray(_sent([b"whole"]) + b"\0\0")
    reader.feed(chunk)
    whole = reader.next_frame()
    assert whole is not None
    whole.release()
    assert reader.next_frame() is None
    chunk.clear()  # BufferError if a view of it still exists
    reader.feed(b"\0\x01x")
    assert reader.next_frame() == b"x"


def test_feeding_before_all_frames_are_taken_is_our_own_fault() -> None:
    reader = FrameReader(SIZE_MAX)
    reader.feed(_sent([b"a", b"b"]))
    assert reader.next_frame() == b"a"
    with pytest.raises(RuntimeError):
        reader.feed(b"more")


@pytest.mark.parametrize("size", [-1, -(2**31), SIZE_MAX + 1, 2**31 - 1])
@pytest.mark.parametrize("cut", [1, 4, 8])
def test_a_size_out_of_bounds_is_refused_before_anything_is_held(size: int, cut: int) -> None:
    sent = _sent([b"good"]) + size.to_bytes(4, "big", signed=True) + bytes(10)
    with pytest.raises(BadFrameSize) as refused:
        _received([sent[: 8 + cut], sent[8 + cut :]])
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert refused.value.size == size
    assert str(size) in str(refused.value)


def test_frames_before_a_bad_size_come_out_first() -> None:
    reader = FrameReader(SIZE_MAX)
    reader.feed(_sent([b"good"]) + b"\xff\xff\xff\xff")
    assert reader.next_frame() == b"good"
    with pytest.raises(BadFrameSize):
        reader.next_frame()


def test_the_largest_frame_is_accepted() -> None:
    largest = bytes(SIZE_MAX)
    assert _received([_sent([largest])]) == [largest]
    assert _received([_sent([largest])[:-1], b"\0"]) == [largest]


def test_an_announced_frame_takes_no_memory_before_it_arrives() -> None:
    def announce() -> None:
        reader = FrameReader(2**31 - 1)
        reader.feed(b"\x7f\xff\xff\xff" + bytes(1000))
        assert reader.next_frame() is None

    assert takes_less_than(10_000, announce)


def test_a_sent_frame_begins_with_its_length_and_keeps_its_parts() -> None:
    records = memoryview(b"batch")
    parts = frame(b"head", [b"body", records, b"end"])
    assert parts == [b"\0\0\0\x10headbody", records, b"end"]
    assert parts[1] is records


def test_a_message_that_does_not_begin_with_bytes_is_our_own_fault() -> None:
    with pytest.raises(TypeError):
        frame(b"head", [memoryview(b"batch")])
