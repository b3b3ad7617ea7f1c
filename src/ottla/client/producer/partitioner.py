"""The default partitioner of Kafka's clients: murmur2 of the key."""

_MASK = 0xFFFF_FFFF
_SEED = 0x9747_B28C
_FACTOR = 0x5BD1_E995


def murmur2(key: bytes) -> int:
    """The 32-bit MurmurHash2 of a key, unsigned, with Kafka's seed."""
    size = len(key)
    hashed = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        hashed = hashed * _FACTOR & _MASK ^ word
    if rest := key[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _MASK
    return hashed ^ hashed >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key in a topic with `partitions` partitions."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions
