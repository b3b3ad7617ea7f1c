"""Frames of requests for what reads them natively: recorded ones, and the same with damage."""

import os
import random
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from ottla.protocol.messages import Api
from tests.support.protocol.wire_vectors import recorded

# `make soak` looks longer.
ROUNDS = 400 if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else 20

# What topics, groups, members and clients may be called.
names = st.text(
    alphabet=st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=200
)
int32s = st.integers(-(2**31), 2**31 - 1)


def recorded_frames(api: Api) -> list[bytes]:
    return [vector.frame for vector in recorded() if vector.message is api.request]


def frames_of_others(api: Api) -> list[bytes]:
    """Recorded requests to every other API."""
    return [
        vector.frame
        for vector in recorded()
        if vector.message is vector.api.request and vector.api is not api
    ]


def mutations(frame: bytes, seed: int) -> Iterator[bytes]:
    """Derived from the seed alone, so that a failure comes again."""
    entropy = random.Random(seed)
    for _ in range(ROUNDS):
        changed = bytearray(frame)
        for _ in range(entropy.randint(1, 3)):
            # Most of what could matter lies at the beginning.
            at = min(entropy.randrange(len(changed)), entropy.randrange(len(changed)))
            match entropy.randrange(4):
                case 0:
                    changed[at] = entropy.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
                case 1:
                    changed[at] ^= 1 << entropy.randrange(8)
                case 2:
                    del changed[at:]
                case _:
                    changed[at:at] = entropy.randbytes(entropy.randint(1, 4))
            if not changed:
                break
        yield bytes(changed)


def joined(parts: Any) -> bytes:
    """What was encoded in parts, as one."""
    return b"".join(map(bytes, parts))
