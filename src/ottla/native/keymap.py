"""The latest offset of each key, in a table of bounded size: what a cleaner knows of the new part.

A key is kept as its 128-bit SipHash (2-4) under a secret, never as itself: an entry takes 24 bytes
however long the key is. Two keys of one hash would be taken for one. By chance that does not
happen, and on purpose nobody can make it happen who does not know the secret.
"""

from __future__ import annotations

from typing import Any

import cython

Buffer = bytes | bytearray | memoryview

SLOT_BYTES = 24
# What becomes of a record, in the answer of `KeyMap.judge`.
GOES = 0
STAYS = 1
STAYS_AS_TOMBSTONE = 2

# Both halves of the hash, then the offset plus one: 0 is a slot that is free.
_SLOT_WORDS = cython.declare(cython.Py_ssize_t, 3)
# Compiled, words wrap by themselves; interpreted, this makes them.
_WORD = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_SIP_0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_SIP_1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D)
_SIP_2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_SIP_3 = cython.declare(cython.ulonglong, 0x7465646279746573)
_GOES = cython.declare(cython.uchar, GOES)
_STAYS = cython.declare(cython.uchar, STAYS)
_STAYS_AS_TOMBSTONE = cython.declare(cython.uchar, STAYS_AS_TOMBSTONE)


@cython.final
@cython.cclass
class KeyMap:
    """Open addressing; begins with room for `keys_expected` and grows within `bytes_max`.

    While it grows the old table is there, too, and counts: it never has more than `bytes_max`.
    """

    slots: cython.ulonglong[::1]
    slot_count: cython.ulonglong
    load_factor: cython.double
    bytes_max: cython.longlong
    count: cython.longlong
    count_max: cython.longlong
    latest: cython.longlong
    secret_0: cython.ulonglong
    secret_1: cython.ulonglong
    # The state of the hash, and the bytes that are hashed.
    view: cython.const[cython.uchar][::1]
    v0: cython.ulonglong
    v1: cython.ulonglong
    v2: cython.ulonglong
    v3: cython.ulonglong
    hash_0: cython.ulonglong
    hash_1: cython.ulonglong

    def __init__(
        self, secret: bytes, bytes_max: int, *, keys_expected: int = 0, load_factor: float = 0.9
    ) -> None:
        if len(secret) != 16:
            raise ValueError(f"a secret of {len(secret)} bytes, 16 are needed")
        if bytes_max < SLOT_BYTES * 2:
            raise ValueError(f"{bytes_max} bytes are too few for a table")
        self.secret_0 = int.from_bytes(secret[:8], "little")
        self.secret_1 = int.from_bytes(secret[8:], "little")
        self.bytes_max = bytes_max
        self.load_factor = load_factor
        self.count = 0
        self.latest = -1
        wanted = int(keys_expected / load_factor) + 2
        self._set_table(min(wanted, bytes_max // SLOT_BYTES))

    def __len__(self) -> int:
        return self.count

    @property
    def latest_offset(self) -> int:
        """Up to here, included, it knows everything from where it was begun; -1 if nothing."""
        return self.latest

    @property
    def utilization(self) -> float:
        """What share of its bytes it has used."""
        return self.slot_count * SLOT_BYTES / self.bytes_max * self.count / max(self.count_max, 1)

    def cover(self, offset: int) -> None:
        """Up to this offset there is nothing more to put."""
        self.latest = max(self.latest, offset)

    def put(self, body: Buffer, columns: Any, base_offset: int, start_offset: int) -> bool:
        """Puts the keys of a batch's records from `start_offset` on; False once it is full.

        `columns` are those of `scan.key_columns`. What was put before it was full stays, and
        `latest_offset` says how far that goes.
        """
        if not len(columns.key_lengths):
            return True
        self.view = body
        offset_deltas: cython.longlong[::1] = columns.offset_deltas
        key_starts: cython.longlong[::1] = columns.key_starts
        key_lengths: cython.longlong[::1] = columns.key_lengths
        base: cython.longlong = base_offset
        start: cython.longlong = start_offset
        total: cython.Py_ssize_t = len(columns.key_lengths)
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t
        for index in range(total):
            offset: cython.longlong = base + offset_deltas[index]
            if offset < start or key_lengths[index] < 0:
                continue
            self._hash(key_starts[index], key_lengths[index])
            at = self._find()
            if self.slots[at + 2] == 0:
                if self.count >= self.count_max:
                    if not self._grow():
                        return False
                    at = self._find()
                self.count += 1
                self.slots[at] = self.hash_0
                self.slots[at + 1] = self.hash_1
            self.slots[at + 2] = offset + 1
            self.latest = offset
        return True

    def judge(
        self, body: Buffer, columns: Any, base_offset: int, drops_tombstones: bool
    ) -> bytearray:
        """For each record of a batch whether it stays, and whether it says that a key is gone.

        A record goes if a later one has its key, if it has no key, or if it is a tombstone whose
        time is over. Of what lies beyond `latest_offset` nothing is known: that stays.
        """
        total: cython.Py_ssize_t = len(columns.key_lengths)
        judged = bytearray(total)
        if total == 0:
            return judged
        self.view = body
        marks: cython.uchar[::1] = judged
        offset_deltas: cython.longlong[::1] = columns.offset_deltas
        key_starts: cython.longlong[::1] = columns.key_starts
        key_lengths: cython.longlong[::1] = columns.key_lengths
        value_lengths: cython.longlong[::1] = columns.value_lengths
        base: cython.longlong = base_offset
        drops: cython.bint = drops_tombstones
        index: cython.Py_ssize_t
        for index in range(total):
            offset: cython.longlong = base + offset_deltas[index]
            if offset <= self.latest:
                if key_lengths[index] < 0 or (drops and value_lengths[index] < 0):
                    continue
                self._hash(key_starts[index], key_lengths[index])
                found: cython.longlong = self.slots[self._find() + 2]
                if offset + 1 < found:
                    continue
            marks[index] = _STAYS_AS_TOMBSTONE if value_lengths[index] < 0 else _STAYS
        return judged

    def hash(self, key: bytes) -> tuple[int, int]:
        """Both halves of a key's hash, the first first."""
        self.view = key
        self._hash(0, len(key))
        return self.hash_0, self.hash_1

    @cython.cfunc
    @cython.exceptval(-1)
    def _set_table(self, slot_count: cython.longlong) -> cython.longlong:
        self.slot_count = slot_count
        self.count_max = max(1, min(slot_count - 1, int(slot_count * self.load_factor)))
        # As a bytearray it comes as zeros, which the system need not have written.
        self.slots = memoryview(bytearray(slot_count * SLOT_BYTES)).cast("Q")
        return slot_count

    @cython.cfunc
    @cython.exceptval(-1)
    def _grow(self) -> cython.longlong:
        """Twice the table if there is room for it beside the old one; whether there was."""
        old: cython.ulonglong[::1] = self.slots
        old_words: cython.Py_ssize_t = len(self.slots)
        slot_count: cython.longlong = self.slot_count
        slot_count = min(slot_count * 2, self.bytes_max // SLOT_BYTES - slot_count)
        if slot_count <= cython.cast(cython.longlong, self.slot_count):
            return 0
        self._set_table(slot_count)
        hash_0: cython.ulonglong = self.hash_0
        hash_1: cython.ulonglong = self.hash_1
        at: cython.Py_ssize_t
        to: cython.Py_ssize_t
        for at in range(0, old_words, 3):
            if old[at + 2] != 0:
                self.hash_0 = old[at]
                self.hash_1 = old[at + 1]
                to = self._find()
                self.slots[to] = self.hash_0
                self.slots[to + 1] = self.hash_1
                self.slots[to + 2] = old[at + 2]
        self.hash_0 = hash_0
        self.hash_1 = hash_1
        return 1

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _find(self) -> cython.Py_ssize_t:
        """Where the slot of the last hash begins, or the free one in which it would go."""
        index: cython.ulonglong = self.hash_0 % self.slot_count
        at: cython.Py_ssize_t = 0
        while True:
            at = index * _SLOT_WORDS
            if self.slots[at + 2] == 0:
                return at
            if self.slots[at] == self.hash_0 and self.slots[at + 1] == self.hash_1:
                return at
            index += 1
            if index == self.slot_count:
                index = 0

    @cython.cfunc
    @cython.exceptval(-1)
    def _hash(self, start: cython.longlong, length: cython.longlong) -> cython.longlong:
        """SipHash-2-4 with 128 bits, of the bytes in view."""
        self.v0 = self.secret_0 ^ _SIP_0
        self.v1 = self.secret_1 ^ _SIP_1 ^ 0xEE
        self.v2 = self.secret_0 ^ _SIP_2
        self.v3 = self.secret_1 ^ _SIP_3
        position: cython.longlong = start
        whole_end: cython.longlong = start + length - length % 8
        word: cython.ulonglong = 0
        while position < whole_end:
            word = self._word(position, 8)
            self.v3 ^= word
            self._rounds(2)
            self.v0 ^= word
            position += 8
        size: cython.ulonglong = length & 0xFF
        word = self._word(position, length % 8) | size << 56
        self.v3 ^= word
        self._rounds(2)
        self.v0 ^= word
        self.v2 ^= 0xEE
        self._rounds(4)
        self.hash_0 = self.v0 ^ self.v1 ^ self.v2 ^ self.v3
        self.v1 ^= 0xDD
        self._rounds(4)
        self.hash_1 = self.v0 ^ self.v1 ^ self.v2 ^ self.v3
        return length

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _word(self, start: cython.longlong, size: cython.longlong) -> cython.ulonglong:
        word: cython.ulonglong = 0
        byte: cython.ulonglong = 0
        index: cython.longlong
        for index in range(size):
            byte = self.view[start + index]
            word |= byte << (8 * index)
        return word

    @cython.cfunc
    @cython.exceptval(check=False)
    def _rounds(self, count: cython.int) -> cython.ulonglong:
        v0: cython.ulonglong = self.v0
        v1: cython.ulonglong = self.v1
        v2: cython.ulonglong = self.v2
        v3: cython.ulonglong = self.v3
        index: cython.int
        for index in range(count):  # noqa: B007 (a C loop needs its typed name)
            v0 = (v0 + v1) & _WORD
            v1 = ((v1 << 13) | (v1 >> 51)) & _WORD
            v1 ^= v0
            v0 = ((v0 << 32) | (v0 >> 32)) & _WORD
            v2 = (v2 + v3) & _WORD
            v3 = ((v3 << 16) | (v3 >> 48)) & _WORD
            v3 ^= v2
            v0 = (v0 + v3) & _WORD
            v3 = ((v3 << 21) | (v3 >> 43)) & _WORD
            v3 ^= v0
            v2 = (v2 + v1) & _WORD
            v1 = ((v1 << 17) | (v1 >> 47)) & _WORD
            v1 ^= v2
            v2 = ((v2 << 32) | (v2 >> 32)) & _WORD
        self.v0 = v0
        self.v1 = v1
        self.v2 = v2
        self.v3 = v3
        return v0
