"""The four codecs of record batches, each with a limit on the decompressed size.

Data beyond the limit is never decompressed: snappy declares its size, and the other three codecs
write into a buffer whose size we choose.
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
    """Bytes that their codec cannot decompress."""

    def __init__(self, codec: Codec, reason: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, f"{codec.name.lower()}: {reason}")
        self.codec = codec


class DecompressedTooLarge(PeerError):
    """Compressed bytes whose decompressed size exceeds the reader's limit."""

    def __init__(self, codec: Codec, size_max: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{codec.name.lower()}: decompresses to more than {size_max} bytes",
        )
        self.codec = codec
        self.size_max = size_max


# The default levels of Kafka's own producer.
_LEVELS = {Codec.GZIP: 6, Codec.LZ4: 1, Codec.ZSTD: 3}
# The highest level of the lz4 library; Kafka's Java library has levels up to 17.
_LZ4_LEVEL_MAX = 12


def compress(codec: Codec, plain: Buffer, level: int | None = None) -> bytes:
    """Compresses at a level, by default that of Kafka's producer; snappy has no levels."""
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
    """Decompresses `compressed` to at most `size_max` bytes.

    Raises `CorruptCompression` for invalid bytes, `DecompressedTooLarge` for more than `size_max`;
    memory use stays near `size_max` in either case.
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


# The Rust error message for a full output buffer.
_BUFFER_FULL = "failed to write whole buffer"
_FIRST_BUFFER_BYTES = 64 * 1024
# Earlier passes together cost at most a seventh of the last, successful one.
_BUFFER_GROWTH = 8


def _decompress_growing(
    codec: Codec,
    decompress_into: Callable[[Buffer, bytearray], int],
    compressed: Buffer,
    size_max: int,
) -> bytearray:
    """Decompresses into buffers of growing size: the size in the frame is not trusted."""
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
    """One frame of independent blocks: Kafka's Java reader refuses linked blocks."""
    frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    frame.compress(bytes(plain))
    return bytes(frame.finish())


# The framing of xerial's snappy-java, which Kafka uses: a header, then blocks of raw snappy, each
# after its length. The header is magic, the version, and the oldest compatible version.
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
    """Decompresses xerial's framing, or one raw block: some clients write no framing."""
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
