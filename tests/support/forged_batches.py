"""Batches as a hostile client forges them: a good header and checksum around any records.

Structure-aware: records are built field by field as the format has them, then some of their
numbers are replaced by others. Most of what comes out gets past the checks of lengths and counts
that random bytes fail at. `sent_batches` forges headers, too.
"""

from collections.abc import Iterator
from random import Random
from struct import pack_into

from hypothesis import strategies as st

from ottla.errors import PeerError
from ottla.protocol.batch import (
    HEADER_BYTES,
    BatchHeader,
    build,
    crc_of,
    read_header,
    records,
)
from ottla.protocol.batch import Record as Record
from ottla.protocol.compression import Codec, compress

NOW_MS = 1_700_000_000_000
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def zigzag(value: int) -> bytes:
    """A varint as records have it."""
    raw = (value << 1) ^ (value >> 63)
    raw &= 2**64 - 1
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def with_header(header: BatchHeader, body: bytes, codec: int, **fields: int) -> bytearray:
    """A batch of these fields and bytes, whose length and checksum are right."""
    batch = bytearray(build([Record(0, 0, None, None)])[:HEADER_BYTES]) + body
    fields = {"length": len(batch) - 12, "attributes": codec, **fields}
    _pack(batch, header._replace(**fields))
    _pack(batch, read_header(batch)._replace(crc=crc_of(batch, 0, len(batch))))
    return batch


def _pack(batch: bytearray, header: BatchHeader) -> None:
    pack_into(">qiibIhiqqqhii", batch, 0, *header)


def forged(
    body: bytes,
    codec: Codec = Codec.NONE,
    *,
    count: int = 2,
    timestamp_ms: int = NOW_MS,
    **fields: int,
) -> bytearray:
    """A batch that claims `count` records, with these bytes behind its header as they are."""
    header = read_header(build([Record(n, timestamp_ms, b"k", b"v") for n in range(count)]))
    return with_header(header, body, codec, **fields)


def bomb(codec: Codec, size_bytes: int, *, timestamp_ms: int = NOW_MS) -> bytearray:
    """A sound batch of one record that is small on the wire and large in memory."""
    return build([Record(0, timestamp_ms, b"k", bytes(size_bytes))], codec=codec)


@st.composite
def _varints(draw: st.DrawFn, sound: int) -> bytes:
    """A number as it should be; seldom another one, or one that is written badly."""
    match draw(st.integers(0, 30)):
        case 0:
            return zigzag(draw(INT64))
        case 1:
            return zigzag(sound + draw(st.sampled_from((-2, -1, 1, 2, 64, 2**31))))
        case 2:
            return draw(st.sampled_from((b"\x80", b"\xff" * 9, b"\xff" * 11, b"\x80\x00", b"")))
        case _:
            return zigzag(sound)


@st.composite
def _fields(draw: st.DrawFn) -> bytes:
    """A key or a value behind its length."""
    content = draw(st.none() | st.binary(max_size=12))
    length = -1 if content is None else len(content)
    return draw(_varints(length)) + (content or b"")


@st.composite
def _record_bytes(draw: st.DrawFn, number: int) -> bytes:
    fields = [b"\0", draw(_varints(draw(st.integers(-50, 50)))), draw(_varints(number))]
    fields += [draw(_fields()), draw(_fields())]
    header_count = draw(st.integers(0, 2))
    fields.append(draw(_varints(header_count)))
    for _ in range(header_count):
        name = draw(st.binary(max_size=4))
        fields += [draw(_varints(len(name))), name, draw(_fields())]
    content = b"".join(fields)
    return draw(_varints(len(content))) + content


@st.composite
def forged_batches(draw: st.DrawFn) -> bytearray:
    """A batch that a broker gets: its checksum is right, whatever else is wrong with it."""
    count = draw(st.integers(1, 5))
    body = b"".join(draw(_record_bytes(number)) for number in range(count))
    codec = draw(st.sampled_from(Codec))
    content = body if codec is Codec.NONE else compress(codec, body)
    match draw(st.integers(0, 6)):
        case 0:
            content = content[: draw(st.integers(0, len(content)))]
        case 1:
            content += draw(st.binary(min_size=1, max_size=20))
        case 2 if content:
            at = draw(st.integers(0, len(content) - 1))
            content = content[:at] + draw(st.binary(min_size=1, max_size=3)) + content[at + 1 :]
    fields: dict[str, int] = {}
    match draw(st.integers(0, 12)):
        case 0:
            claimed = draw(st.sampled_from((0, 1, count + 1, 2**31 - 1)))
            fields |= {"count": claimed, "last_offset_delta": claimed - 1}
        case 1:
            fields |= {"base_timestamp": draw(INT64)}
        case 2:
            fields |= {"max_timestamp": draw(INT64)}
        case 3:
            fields |= {"max_timestamp": NOW_MS + draw(st.integers(-1000, 1000))}
        case 4:
            fields |= {"producer_id": 5, "producer_epoch": 0, "base_sequence": draw(INT32)}
    header = read_header(build([Record(n, NOW_MS, b"k", b"v") for n in range(count)]))
    return with_header(header, content, codec, **fields)


# The interesting values of each header field: limits, neighbours of limits, and nonsense.
_HEADER_VALUES: dict[str, tuple[int, ...]] = {
    "base_offset": (0, 1, -1, 2**63 - 1),
    "length": (-(2**31), -1, 0, 13, 14, 48, 49, 2**31 - 1),
    "partition_leader_epoch": (-1, 0, 5, 2**31 - 1),
    "magic": (-128, -1, 0, 1, 2, 3, 127),
    "crc": (0, 1, 2**32 - 1),
    "attributes": (
        *range(8),
        *(5, 6, 7) * 8,
        *range(8, 128),
        0x80,
        0x100,
        0x101,
        0x4000,
        -(2**15),
        -1,
    ),
    "last_offset_delta": (-2, -1, 0, 1, 2, 3, 2**31 - 1),
    "base_timestamp": (-(2**63), -1, 0, NOW_MS, 2**63 - 1),
    "max_timestamp": (-(2**63), -1, 0, NOW_MS, NOW_MS + 1, NOW_MS + 3_600_001, 2**63 - 1),
    "producer_id": (-(2**63), -1, 0, 7, 2**63 - 1),
    "producer_epoch": (-(2**15), -1, 0, 7),
    "base_sequence": (-(2**31), -1, 0, 7),
    "count": (-1, 0, 1, 2, 3, 10_000, 20_000_000, 2**31 - 1),
}
# Counts that agree with the last offset delta, around the limits of what a reader can hold.
_COUNTS = (0, 1, 2, 3, 140, 149, 150, 151, 10_000, 19_173_961, 19_173_962, 2**31 - 1)
_TIMES = (-1, 0, NOW_MS - 1001, NOW_MS - 1000, NOW_MS, NOW_MS + 3_600_000, NOW_MS + 3_600_001)


def sent_batches(seed: int, number: int) -> Iterator[bytearray]:
    """So many batches as clients may send them: sound, or with header fields or bytes changed.

    All are as long as a header or longer. Most checksums are right, so that later checks are
    reached. The seed decides everything.
    """
    entropy = Random(seed)
    for _ in range(number):
        yield _sent_batch(entropy)


def _sent_batch(entropy: Random) -> bytearray:
    numbered = [
        Record(
            number,
            entropy.choice(_TIMES),
            entropy.choice((None, b"", b"key")),
            entropy.choice((None, b"", b"value" * entropy.randrange(9))),
            (("h", b"x"),) * entropy.choice((0, 0, 2)),
        )
        for number in range(entropy.randint(1, 4))
    ]
    batch = build(numbered, codec=entropy.choice((Codec.NONE, Codec.NONE, *Codec)))
    if entropy.random() < 0.3:
        _damage(batch, entropy, HEADER_BYTES)
    changed: dict[str, int] = {}
    if entropy.random() < 0.2:
        count = entropy.choice(_COUNTS)
        changed |= {"count": count, "last_offset_delta": count - 1}
    if entropy.random() < 0.2:
        changed |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    for field in entropy.sample(sorted(_HEADER_VALUES), entropy.choice((0, 1, 1, 2))):
        changed[field] = entropy.choice(_HEADER_VALUES[field])
    _pack(batch, read_header(batch)._replace(**{"length": len(batch) - 12, **changed}))
    if "crc" not in changed:
        _pack(batch, read_header(batch)._replace(crc=crc_of(batch, 0, len(batch))))
    if entropy.random() < 0.1:
        _damage(batch, entropy, 0)
    return batch


def _damage(batch: bytearray, entropy: Random, begin: int) -> None:
    """Cuts, extends or changes the bytes from `begin` on; a header is left."""
    match entropy.randrange(3):
        case 0:
            del batch[max(HEADER_BYTES, entropy.randint(begin, len(batch))) :]
        case 1:
            batch += entropy.randbytes(entropy.randint(1, 70))
        case _ if len(batch) > begin:
            batch[entropy.randrange(begin, len(batch))] ^= 1 << entropy.randrange(8)


def readable(batch: bytes | bytearray) -> list[Record] | None:
    """The records of a batch; None if it cannot be read."""
    try:
        return list(records(batch))
    except PeerError:
        return None
