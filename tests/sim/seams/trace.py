"""What a simulation did, folded into one hash."""

import hashlib


class Trace:
    """Two runs of a seed did the same, in the same order, where their traces have one hash."""

    __slots__ = ("_digest",)

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)

    def fold(self, event: str, content: bytes | bytearray = b"") -> None:
        """Adds one event and the bytes it carried."""
        self._digest.update(f"{event}\n{len(content)}\n".encode())
        self._digest.update(content)

    def hash(self) -> str:
        """The hash of everything so far; more may follow."""
        return self._digest.hexdigest()
