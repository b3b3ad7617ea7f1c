"""Frames out of bytes, however these arrive."""

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
    """Fills as much room as there is, again and again; the frames that this completes."""
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
def test_however_frames_are_cut_they_come_out_whole(frames: list[bytes], cuts: list[int]) -> None:
    receiver = FrameReceiver(scratch(64), SIZE_MAX)
    received = []
    for piece in pieces(framed(*frames), cuts):
        received += receive(receiver, piece)
    assert received == frames
    assert receiver.held_bytes == 0


def test_one_byte_at_a_time_is_as_good_as_all_at_once() -> None:
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


def test_what_arrives_whole_is_not_copied_and_what_is_cut_has_a_buffer_of_its_own() -> None:
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


def test_a_frame_can_be_written_to_where_it_lies() -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    sent = framed(b"abc")
    receiver.room()[: len(sent)] = sent
    (frame,) = receiver.frames(len(sent))
    frame[0] = ord("x")
    assert bytes(frame) == b"xbc"


@pytest.mark.parametrize("size", [-1, SIZE_MAX + 1, 2**31 - 1, -(2**31)])
def test_a_size_that_cannot_be_is_refused_before_anything_is_kept_for_it(size: int) -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    with pytest.raises(BadFrameSize):
        receive(receiver, framed(b"good") + size.to_bytes(4, "big", signed=True))
    assert receiver.held_bytes == 0


def test_a_frame_of_the_largest_size_is_taken() -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    (frame,) = receive(receiver, framed(bytes(SIZE_MAX)))
    assert len(frame) == SIZE_MAX


def test_a_length_that_is_merely_claimed_costs_nothing() -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    assert receive(receiver, SIZE_MAX.to_bytes(4, "big")) == []
    assert receiver.held_bytes == AHEAD_BYTES_MIN
    for received in range(10_000, SIZE_MAX, 10_000):
        assert receive(receiver, bytes(10_000)) == []
        assert receiver.held_bytes <= AHEAD * received


def test_a_frame_of_which_much_is_there_gets_all_its_room_at_once() -> None:
    receiver = FrameReceiver(scratch(), SIZE_MAX)
    assert receive(receiver, framed(bytes(SIZE_MAX))[:SCRATCH_BYTES]) == []
    assert len(receiver.room()) == SIZE_MAX - (SCRATCH_BYTES - 4)
