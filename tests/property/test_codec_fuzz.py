"""Malformed messages are refused with a DecodeError that names the field and the position.

Inputs derive from recorded frames and seeds, so failures are reproducible.
"""

import os
import random
from typing import Any

import pytest

from ottla.errors import PeerError
from ottla.protocol.codec import decode
from ottla.protocol.exchange import decode_request
from ottla.protocol.messages import APIS, Api
from ottla.protocol.primitives import DecodeError
from tests.support.protocol.wire_vectors import Recorded, one_of_each

# `make soak` runs more.
ROUNDS = 200 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 8


def _of_key(key: int) -> list[Recorded]:
    return [vector for vector in one_of_each() if vector.api.key == key]


def _decode(vector: Recorded, frame: bytes | memoryview) -> tuple[Any, int]:
    _, position = decode(vector.header, vector.header_version, frame)
    return decode(vector.message, vector.version, frame, position)


def _outcome(vector: Recorded, frame: bytes) -> DecodeError | int:
    """The DecodeError, or the end of the message. Any other exception fails the test."""
    try:
        return _decode(vector, frame)[1]
    except DecodeError as refused:
        return refused


def _is_sound(outcome: DecodeError | int, size: int) -> bool:
    if isinstance(outcome, int):
        return outcome <= size
    return outcome.field != "" and 0 <= outcome.position <= size


@pytest.mark.parametrize("key", APIS)
def test_a_frame_cut_short_anywhere_is_refused_at_the_cut(key: int) -> None:
    for vector in _of_key(key):
        _, end = _decode(vector, vector.frame)
        for cut in range(end):
            outcome = _outcome(vector, vector.frame[:cut])
            assert isinstance(outcome, DecodeError), (vector.name, cut)
            assert _is_sound(outcome, cut), (vector.name, cut, outcome)


@pytest.mark.parametrize("key", APIS)
def test_a_frame_with_flipped_bits_is_refused_or_read(key: int) -> None:
    for vector in _of_key(key):
        for seed in range(ROUNDS):
            rng, damaged = random.Random(seed), bytearray(vector.frame)
            for _ in range(rng.randint(1, 3)):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            outcome = _outcome(vector, bytes(damaged))
            assert _is_sound(outcome, len(damaged)), (vector.name, seed, outcome)


@pytest.mark.parametrize("key", APIS)
def test_a_frame_with_bytes_replaced_by_extremes_is_refused_or_read(key: int) -> None:
    """Extreme lengths and counts are the most dangerous input of a decoder."""
    for vector in _of_key(key):
        for seed in range(ROUNDS):
            rng, damaged = random.Random(seed), bytearray(vector.frame)
            extreme = rng.choice(
                (b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f")
            )
            at = rng.randrange(len(damaged))
            damaged[at : at + len(extreme)] = extreme
            outcome = _outcome(vector, bytes(damaged))
            assert _is_sound(outcome, len(damaged)), (vector.name, seed, outcome)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_garbage_is_refused_or_read(api: Api) -> None:
    for version in range(api.versions[0], api.versions[1] + 1):
        for seed in range(ROUNDS):
            rng = random.Random(seed)
            head = api.key.to_bytes(2, "big") + version.to_bytes(2, "big")
            garbage = bytes(rng.choices((0, 1, 2, 255, rng.randrange(256)), k=rng.randrange(120)))
            assert _asked(head + garbage) in (api, None), (version, seed)


def _asked(frame: bytes) -> Api | None:
    """The API of a request, or None if it was refused."""
    try:
        return decode_request(frame).api
    except PeerError:
        return None
