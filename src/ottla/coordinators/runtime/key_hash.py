"""The hash by which Kafka's coordinators find a key's partition."""

from functools import lru_cache

# The same keys are looked up again and again.
HASHES_KEPT_MAX = 4096


@lru_cache(HASHES_KEPT_MAX)
def java_hash(text: str) -> int:
    """`String.hashCode` of Java without its sign, as Kafka hashes group and transactional ids."""
    number = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(encoded), 2):
        number = (31 * number + (encoded[at] << 8 | encoded[at + 1])) & 0xFFFFFFFF
    return number & 0x7FFFFFFF
