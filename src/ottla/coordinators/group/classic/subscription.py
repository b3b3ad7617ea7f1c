"""The topics in a consumer's metadata: the one look into bytes that are the clients' affair.

All versions begin as version 0 does: a version, then the topics.
"""

import struct

_VERSION_AND_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")
# What members of a group of consumers call themselves.
CONSUMER = "consumer"


def topics_in(metadata: bytes) -> frozenset[str] | None:
    """The topics that a consumer subscribes to; None if this is something else."""
    topics = []
    try:
        _, count = _VERSION_AND_COUNT.unpack_from(metadata)
        position = _VERSION_AND_COUNT.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            start = position + _LENGTH.size
            position = start + length
            if length < 0 or position > len(metadata):
                return None
            topics.append(metadata[start:position].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
