"""Frames are complete, however their bytes arrive."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.net.receive_buffer import AHEAD, AHEAD_BYTES_MIN, SCRATCH_BYTES, FrameReceiver
from ottla.protocol.framing import BadFrameSize

SIZE_MAX = 1_000_000


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def scratch(size: int = SCRATCH_BYTES) -> memoryview:
    return memoryview(bytearray(size))


def receive(receiver: FrameReceiver, arriving: bytes) -> list[bytes]:
    """Receives the bytes in pieces of any size; the completed frames."""
    frames = []
    while arriving:
        room = receiver.room()
        size = min(len(room), len(arriving))
        room[:size] = arriving[:size]
        arriving = arriving[size:]
        frames += [bytes(frame) for frame in receiver.frames(size)]
    return frames


def pieces(content: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(content) + 1) for cut in cuts), len(content)]
    return [content[begin:end] for begin, end in itertools.pairwise(edges)]


@given(
    st.lists(st.binary(max_size=300), max_size=20), st.lists(st.integers(0, 10_000), max_size=20)
)
def test_frames_are_complete_however_the_bytes_are_split(
    frames: list[bytes], cuts: list[int]
) -> None:
    receiver = FrameReceiver(scratch(64), SIZE_MAX)
    received = []
    for piece in pieces(framed(*frames), cuts):
        received += receive(receiver, piece)
    assert received == frames
    assert receiver.held_bytes == 0


def test_bytes_may_arrive_one_at_a_time() -> None:
    frames = [b"", b"a", bytes(700), b"last"]
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    received = [frame for byte in framed(*frames) for frame in receive(receiver, bytes([byte]))]
    assert received == frames


def test_connections_that_share_a_scratch_do_not_mix() -> None:
    shared = scratch(128)
    first, second = FrameReceiver(shared, SIZE_MAX), FrameReceiver(shared, SIZE_MAX)
    received: list[list[bytes]] = [[], []]
    sent = [framed(b"first " * 40, b"1"), framed(b"second " * 40, b"2")]
    for position in range(0, 300, 3):
        for number, receiver in enumerate((first, second)):
            received[number] += receive(receiver, sent[number][position : position + 3])
    assert received == [[b"first " * 40, b"1"], [b"second " * 40, b"2"]]


def test_a_complete_frame_is_not_copied_and_a_split_one_has_its_own_buffer() -> None:
    shared = scratch()
    receiver = FrameReceiver(shared, SIZE_MAX)
    sent = framed(b"whole", b"cut")
    receiver.room()[: len(sent) - 1] = sent[:-1]
    frames = receiver.frames(len(sent) - 1)
    whole = next(frames)
    assert (bytes(whole), whole.obj) == (b"whole", shared.obj)
    assert list(frames) == []
    assert receiver.held_bytes == len(b"cut")
    room = receiver.room()
    assert len(room) == 1, "the rest is received where it belongs"
    room[:] = b"t"
    (cut,) = receiver.frames(1)
    assert bytes(cut) == b"cut"
    assert cut.obj is not shared.obj
    assert receiver.held_bytes == 0


def test_a_frame_is_writable_in_place() -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    sent = framed(b"abc")
    receiver.room()[: len(sent)] = sent
    (frame,) = receiver.frames(len(sent))
    frame[0] = ord("x")
    assert bytes(frame) == b"xbc"


@pytest.mark.parametrize("size", [-1, SIZE_MAX + 1, 2**31 - 1, -(2**31)])
def test_an_impossible_size_is_refused_before_memory_is_allocated(size: int) -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    with pytest.raises(BadFrameSize):
        receive(receiver, framed(b"good") + size.to_bytes(4, "big", signed=True))
    assert receiver.held_bytes == 0


def test_a_frame_of_the_largest_size_is_accepted() -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    (frame,) = receive(receiver, framed(bytes(SIZE_MAX)))
    assert len(frame) == SIZE_MAX


def test_a_claimed_length_costs_no_memory() -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    assert receive(receiver, SIZE_MAX.to_bytes(4, "big")) == []
    assert receiver.held_bytes == AHEAD_BYTES_MIN
    for received in range(10_000, SIZE_MAX, 10_000):
        assert receive(receiver, bytes(10_000)) == []
        assert receiver.held_bytes <= AHEAD * received


def test_a_frame_with_many_received_bytes_gets_its_whole_buffer_at_once() -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    assert receive(receiver, framed(bytes(SIZE_MAX))[:SCRATCH_BYTES]) == []
    assert len(receiver.room()) == SIZE_MAX - (SCRATCH_BYTES - 4)
