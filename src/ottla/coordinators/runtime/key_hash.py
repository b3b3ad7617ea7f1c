"""The hash with which Kafka's coordinators select the partition of a key."""

from functools import lru_cache

# The same keys are looked up repeatedly.
CACHED_HASHES_MAX = 4096


@lru_cache(CACHED_HASHES_MAX)
def java_hash(text: str) -> int:
    """Java's `String.hashCode` without its sign: Kafka's hash of group and transactional ids."""
    number = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        number = (31 * number + (encoded[at] << 8 | encoded[at + 1])) & 0xFFFFFFFF
    return number & 0x7FFFFFFF
