"""The four codecs of a record batch, each with a bound on what it may unfold to.

A bound is held without first unfolding what breaks it: snappy declares its size, and the other
three write into a buffer of a size that we chose.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct

import cramjam

from ottla.errors import ErrorCode, PeerError

Buffer = bytes | bytearray | memoryview


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class CorruptCompression(PeerError):
    """Bytes that are not what their codec would have written."""

    def __init__(self, codec: Codec, reason: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"{codec.name.lower()}: {reason}")
        self.codec = codec


class DecompressedTooLarge(PeerError):
    """Compressed bytes that would unfold to more than the reader accepts."""

    def __init__(self, codec: Codec, size_max: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{codec.name.lower()}: unfolds to more than {size_max} bytes",
        )
        self.codec = codec
        self.size_max = size_max


# The levels that Kafka's own producer has as its defaults.
_LEVELS = {Codec.GZIP: 6, Codec.LZ4: 1, Codec.ZSTD: 3}
# The best that lz4's format knows; Kafka's Java library goes on to 17.
_LZ4_LEVEL_MAX = 12


def compress(codec: Codec, plain: Buffer, level: int | None = None) -> bytes:
    """Compress at a level, which snappy does not have; by default as Kafka's producer does."""
    chosen = _LEVELS.get(codec, 0) if level is None else level
    match codec:
        case Codec.NONE:
            return bytes(plain)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(plain, level=chosen))
        case Codec.SNAPPY:
            return _compress_snappy(memoryview(plain))
        case Codec.LZ4:
            return _compress_lz4(plain, min(chosen, _LZ4_LEVEL_MAX))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(plain, level=chosen))


def decompress(codec: Codec, compressed: Buffer, size_max: int) -> bytes | bytearray:
    """Unfold `compressed` to at most `size_max` bytes.

    Raises `CorruptCompression` for what the codec did not write, `DecompressedTooLarge` for more
    than `size_max`; the memory used stays near `size_max` either way.
    """
    match codec:
        case Codec.NONE:
            if len(compressed) > size_max:
                raise DecompressedTooLarge(codec, size_max)
            return bytes(compressed)
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(compressed), size_max)
        case Codec.GZIP:
            return _decompress_growing(codec, cramjam.gzip.decompress_into, compressed, size_max)
        case Codec.LZ4:
            return _decompress_growing(codec, cramjam.lz4.decompress_into, compressed, size_max)
        case Codec.ZSTD:
            return _decompress_growing(codec, cramjam.zstd.decompress_into, compressed, size_max)


# Rust's error for a writer that takes no more, which is how a full buffer shows.
_BUFFER_FULL = "failed to write whole buffer"
_FIRST_BUFFER_BYTES = 64 * 1024
# Unfolding again from the start costs at most a seventh of the last, successful pass.
_BUFFER_GROWTH = 8


def _decompress_growing(
    codec: Codec,
    decompress_into: Callable[[Buffer, bytearray], int],
    compressed: Buffer,
    size_max: int,
) -> bytearray:
    """Unfold into buffers of growing size: what a frame says of its own size is not trusted."""
    buffer_bytes = max(4 * len(compressed), _FIRST_BUFFER_BYTES)
    while True:
        buffer_bytes = min(buffer_bytes, size_max)
        plain = bytearray(buffer_bytes)
        try:
            written = decompress_into(compressed, plain)
        except cramjam.DecompressionError as error:
            if str(error) != _BUFFER_FULL:
                raise CorruptCompression(codec, str(error)) from None
            if buffer_bytes == size_max:
                raise DecompressedTooLarge(codec, size_max) from None
            buffer_bytes *= _BUFFER_GROWTH
        else:
            del plain[written:]
            return plain


def _compress_lz4(plain: Buffer, level: int) -> bytes:
    """One frame of independent blocks: Kafka's Java reader refuses linked ones."""
    frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    frame.compress(bytes(plain))
    return bytes(frame.finish())


# The framing of xerial's snappy-java, which Kafka uses: a header, then blocks of raw snappy, each
# behind its length. Magic, the writer's version, and the oldest version that can read it.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = Struct(">i")


def _compress_snappy(plain: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(plain), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(plain[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(compressed: memoryview, size_max: int) -> bytearray:
    """Unfold xerial's framing, or one raw block: some clients write no framing at all."""
    if bytes(compressed[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
        blocks = _xerial_blocks(compressed)
    else:
        blocks = iter((compressed,))
    plain = bytearray()
    try:
        for block in blocks:
            if len(plain) + cramjam.snappy.decompress_raw_len(block) > size_max:
                raise DecompressedTooLarge(Codec.SNAPPY, size_max)
            plain += cramjam.snappy.decompress_raw(block)
    except cramjam.DecompressionError as error:
        raise CorruptCompression(Codec.SNAPPY, str(error)) from None
    return plain


def _xerial_blocks(compressed: memoryview) -> Iterator[memoryview]:
    position = len(_XERIAL_HEADER)
    if len(compressed) < position:
        raise CorruptCompression(Codec.SNAPPY, "the framing's header is cut short")
    while position < len(compressed):
        start = position + _BLOCK_LENGTH.size
        if start > len(compressed):
            raise CorruptCompression(Codec.SNAPPY, f"a block's length is cut short at {position}")
        (length,) = _BLOCK_LENGTH.unpack_from(compressed, position)
        if not 0 < length <= len(compressed) - start:
            raise CorruptCompression(Codec.SNAPPY, f"a block of {length} bytes at {position}")
        position = start + length
        yield compressed[start:position]
