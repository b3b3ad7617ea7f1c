"""Records of `__consumer_offsets` survive a round trip; damaged ones do no harm."""

import contextlib
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.group.records import DamagedRecord, decode, encode
from tests.support.coordinators.record_samples import KINDS, any_of


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(drawn=st.data())
@settings(derandomize=True, deadline=None, max_examples=60)
def test_a_record_is_read_as_it_was_written(kind: type[Any], drawn: st.DataObject) -> None:
    record = drawn.draw(any_of(kind))
    key, value = encode(record)
    assert decode(key, value) == record
    assert (value is None) == kind.__name__.endswith("Tombstone")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(drawn=st.data(), seed=st.integers(0, 2**32))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_damaged_bytes_are_read_skipped_or_called_damaged(
    kind: type[Any], drawn: st.DataObject, seed: int
) -> None:
    key, value = encode(drawn.draw(any_of(kind)))
    rng = random.Random(seed)
    for _ in range(20):
        with contextlib.suppress(DamagedRecord):
            found = decode(_damaged(key, rng), None if value is None else _damaged(value, rng))
            assert found is None or isinstance(found, KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(drawn=st.data())
@settings(derandomize=True, deadline=None, max_examples=20)
def test_a_record_cut_short_anywhere_is_damaged(kind: type[Any], drawn: st.DataObject) -> None:
    key, value = encode(drawn.draw(any_of(kind)))
    for cut in range(len(key)):
        with pytest.raises(DamagedRecord):
            decode(key[:cut], value)
    for cut in range(len(value or b"")):
        with pytest.raises(DamagedRecord):
            decode(key, (value or b"")[:cut])


def _damaged(raw: bytes, rng: random.Random) -> bytes:
    """The bytes with flipped bits, removed or inserted bytes; sometimes unchanged."""
    damaged = bytearray(raw)
    for _ in range(rng.choice((0, 1, 1, 3))):
        at = rng.randrange(len(damaged) + 1)
        match rng.randrange(3):
            case 0 if at < len(damaged):
                damaged[at] ^= 1 << rng.randrange(8)
            case 1:
                del damaged[at : at + rng.randrange(4)]
            case _:
                damaged[at:at] = rng.choice((b"\xff", b"\0\0", b"\x80\x80\x80\x80\x01", b"\x7f"))
    return bytes(damaged)
