import gzip
import subprocess
import sys

import cramjam
import pytest

from ottla.errors import ErrorCode
from ottla.protocol.compression import (
    Codec,
    CorruptCompression,
    DecompressedTooLarge,
    compress,
    decompress,
)

COMPRESSING = [codec for codec in Codec if codec != Codec.NONE]
PLAINS = {
    "nothing": b"",
    "a byte": b"a",
    "a block and a byte": b"ottla " * 6000,
    "many blocks": b"".join(b"%d," % number for number in range(60_000)),
}
XERIAL_HEADER = bytes.fromhex("82534e41505059000000000100000001")


@pytest.mark.parametrize("plain", PLAINS.values(), ids=PLAINS)
@pytest.mark.parametrize("codec", Codec)
def test_compressed_bytes_decompress_to_the_original(codec: Codec, plain: bytes) -> None:
    assert decompress(codec, compress(codec, plain), len(plain)) == plain
    assert decompress(codec, memoryview(compress(codec, memoryview(plain))), 1 << 20) == plain
    assert decompress(codec, bytearray(compress(codec, bytearray(plain))), 1 << 20) == plain


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_over_the_limit_is_too_large(codec: Codec) -> None:
    compressed = compress(codec, bytes(100_000))
    with pytest.raises(DecompressedTooLarge, match="more than 99999 bytes") as refused:
        decompress(codec, compressed, 99_999)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert len(decompress(codec, compressed, 100_000)) == 100_000


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_truncated_stream_is_corrupt(codec: Codec, cut: int) -> None:
    compressed = compress(codec, PLAINS["many blocks"])
    with pytest.raises(CorruptCompression) as refused:
        decompress(codec, compressed[:-cut], 1 << 20)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert refused.value.codec == codec


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("garbage", [b"\xff" * 40, b"\xff" * 3, b"not compressed at all"])
def test_garbage_is_corrupt(codec: Codec, garbage: bytes) -> None:
    with pytest.raises(CorruptCompression):
        decompress(codec, garbage, 1 << 20)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_consecutive_frames_are_one_stream(codec: Codec) -> None:
    frames = compress(codec, b"one ") + compress(codec, b"two")
    assert decompress(codec, frames, 100) == b"one two"


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_garbage_after_a_frame_is_corrupt(codec: Codec) -> None:
    with pytest.raises(CorruptCompression):
        decompress(codec, compress(codec, b"one") + b"garbage garbage", 100)


def test_gzip_is_compatible_with_pythons_gzip() -> None:
    assert gzip.decompress(compress(Codec.GZIP, b"plain")) == b"plain"
    assert decompress(Codec.GZIP, gzip.compress(b"plain"), 100) == b"plain"


def test_snappy_has_xerials_framing() -> None:
    compressed = compress(Codec.SNAPPY, bytes(40_000))
    assert compressed[:16] == XERIAL_HEADER
    first = int.from_bytes(compressed[16:20], "big")
    assert cramjam.snappy.decompress_raw_len(compressed[20 : 20 + first]) == 32 * 1024


def test_snappy_without_framing_is_read_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"plain"))
    assert decompress(Codec.SNAPPY, raw, 5) == b"plain"
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.SNAPPY, raw, 4)


def test_the_standard_framing_of_snappy_is_not_kafkas() -> None:
    with pytest.raises(CorruptCompression):
        decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress(b"plain")), 1 << 30)


@pytest.mark.parametrize(
    "blocks",
    [
        b"\x00\x00",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x05abcd",
        b"\x7f\xff\xff\xffabcd",
    ],
)
def test_xerial_blocks_that_do_not_fit_are_corrupt(blocks: bytes) -> None:
    with pytest.raises(CorruptCompression):
        decompress(Codec.SNAPPY, XERIAL_HEADER + blocks, 1 << 20)


def test_a_truncated_xerial_header_is_corrupt() -> None:
    with pytest.raises(CorruptCompression, match="cut short"):
        decompress(Codec.SNAPPY, XERIAL_HEADER[:12], 1 << 20)


def test_a_wrong_snappy_size_allocates_nothing() -> None:
    declares_four_gigabytes = b"\xff\xff\xff\xff\x0f" + b"\x00"
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.SNAPPY, declares_four_gigabytes, 1 << 20)


def test_lz4_blocks_are_independent_as_kafkas_reader_requires() -> None:
    compressed = compress(Codec.LZ4, PLAINS["many blocks"])
    assert compressed[:4] == bytes.fromhex("04224d18")
    version, independent = compressed[4] >> 6, compressed[4] >> 5 & 1
    assert (version, independent) == (1, 1)


# Runs in its own process, whose memory is limited to its current size plus 96 MiB.
BOMBS = """
import resource
from ottla.protocol.compression import Codec, DecompressedTooLarge, compress, decompress

MEGABYTE = 1 << 20
bombs = {codec: compress(codec, bytes(MEGABYTE)) for codec in Codec if codec != Codec.NONE}
# A gigabyte each: whole frames in a row, and for snappy its blocks behind one header.
snappy = bombs[Codec.SNAPPY]
bombs = {codec: bomb * 1024 for codec, bomb in bombs.items()}
bombs[Codec.SNAPPY] = snappy[:16] + snappy[16:] * 1024
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 96 * MEGABYTE,) * 2)
for codec, bomb in bombs.items():
    for size_max in (MEGABYTE, 24 * MEGABYTE):
        try:
            decompress(codec, bomb, size_max)
        except DecompressedTooLarge:
            print(codec.name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads its own size from /proc")
def test_a_gigabyte_of_zeros_is_refused_in_bounded_memory() -> None:
    run = subprocess.run([sys.executable, "-c", BOMBS], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [codec.name for codec in COMPRESSING for _ in range(2)]
