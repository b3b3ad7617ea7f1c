"""The cleaner's offset map: the latest offset of each key in the dirty part, in bounded memory.

A key is stored only as its 128-bit SipHash (2-4) under a secret: an entry takes 24 bytes, however
long the key is. Two keys with the same hash would be treated as one. This does not happen by
chance, and a client cannot force it without the secret.
"""

from __future__ import annotations

from array import array
from typing import Any

import cython

Buffer = bytes | bytearray | memoryview

SLOT_BYTES = 24
# Verdicts on the records of a batch, one byte per batch.
BY_KEY = 0
# By key, and tombstones are discarded: the delete horizon has passed.
BY_KEY_WITHOUT_TOMBSTONES = 1
RETAIN_ALL = 2
RETAIN_ALL_UNTIL_HORIZON = 3
DISCARD_ALL = 4
# Marks of records, in the result of `KeyMap.mark`.
DISCARDED = 0
RETAINED = 1
# A tombstone, or a record that is retained for as long as one.
RETAINED_UNTIL_HORIZON = 2

# Both halves of the hash, then the offset plus one: 0 is a free slot.
_SLOT_WORDS = cython.declare(cython.Py_ssize_t, 3)
# Compiled, words wrap by themselves; interpreted, this mask wraps them.
_WORD = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_SIP_0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_SIP_1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D)
_SIP_2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_SIP_3 = cython.declare(cython.ulonglong, 0x7465646279746573)
_DISCARDED = cython.declare(cython.uchar, DISCARDED)
_RETAINED = cython.declare(cython.uchar, RETAINED)
_RETAINED_UNTIL_HORIZON = cython.declare(cython.uchar, RETAINED_UNTIL_HORIZON)
_BY_KEY_WITHOUT_TOMBSTONES = cython.declare(cython.uchar, BY_KEY_WITHOUT_TOMBSTONES)
_RETAIN_ALL = cython.declare(cython.uchar, RETAIN_ALL)
_RETAIN_ALL_UNTIL_HORIZON = cython.declare(cython.uchar, RETAIN_ALL_UNTIL_HORIZON)


@cython.final
@cython.cclass
class KeyMap:
    """A hash table with open addressing; begins at `keys_expected` and grows within `bytes_max`.

    While it grows, the old table counts too: both together never exceed `bytes_max`.
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
    # The bytes that are hashed, and the last hash.
    view: cython.const[cython.uchar][::1]
    hash_0: cython.ulonglong
    hash_1: cython.ulonglong

    def __init__(
        self, secret: bytes, bytes_max: int, *, keys_expected: int = 0, load_factor: float = 0.9
    ) -> None:
        if len(secret) != 16:
            raise ValueError(f"a secret of {len(secret)} bytes, 16 are needed")
        if bytes_max < SLOT_BYTES * 2:
            raise ValueError(f"{bytes_max} bytes are too few for a table")
        # A slot is found by 32 bits of a hash.
        bytes_max = min(bytes_max, SLOT_BYTES << 32)
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
        """The last offset that the map covers; -1 if none."""
        return self.latest

    @property
    def utilization(self) -> float:
        """The used share of `bytes_max`."""
        return self.slot_count * SLOT_BYTES / self.bytes_max * self.count / max(self.count_max, 1)

    def cover(self, offset: int) -> None:
        """Marks everything up to this offset as covered."""
        self.latest = max(self.latest, offset)

    def put(self, content: Buffer, columns: Any, start_offset: int) -> bool:
        """Adds the keys of records from `start_offset` on; False if the map is full.

        `columns` come from `scan.key_columns`. Keys that were added before the map was full remain,
        and `latest_offset` says how far they reach.
        """
        total: cython.Py_ssize_t = len(columns.offsets)
        if total == 0:
            return True
        hashes: cython.ulonglong[::1] = self._hashes(content, columns)
        offsets: cython.longlong[::1] = columns.offsets
        key_lengths: cython.longlong[::1] = columns.key_lengths
        start: cython.longlong = start_offset
        row: cython.Py_ssize_t
        at: cython.Py_ssize_t
        for row in range(total):
            if offsets[row] < start or key_lengths[row] < 0:
                continue
            at = self._find(hashes[2 * row], hashes[2 * row + 1])
            if self.slots[at + 2] == 0:
                if self.count >= self.count_max:
                    if not self._grow():
                        self.cover(offsets[row] - 1)
                        return False
                    at = self._find(hashes[2 * row], hashes[2 * row + 1])
                self.count += 1
                self.slots[at] = hashes[2 * row]
                self.slots[at + 1] = hashes[2 * row + 1]
            self.slots[at + 2] = offsets[row] + 1
        self.cover(offsets[total - 1])
        return True

    def mark(self, content: Buffer, columns: Any, verdicts: bytearray) -> bytearray:
        """A mark for each record: discarded, retained, or retained until the delete horizon.

        By key, a record is discarded if a later record has the same key, if it has no key, or if it
        is a tombstone past its delete horizon. Records beyond `latest_offset` are retained.
        """
        total: cython.Py_ssize_t = len(columns.offsets)
        judged = bytearray(total)
        if total == 0:
            return judged
        hashes: cython.ulonglong[::1] = self._hashes(content, columns)
        first_rows: cython.longlong[::1] = columns.first_rows
        offsets: cython.longlong[::1] = columns.offsets
        key_lengths: cython.longlong[::1] = columns.key_lengths
        value_lengths: cython.longlong[::1] = columns.value_lengths
        marks: cython.uchar[::1] = judged
        batch: cython.Py_ssize_t
        row: cython.Py_ssize_t
        batch_count: cython.Py_ssize_t = len(verdicts)
        for batch in range(batch_count):
            verdict: cython.uchar = verdicts[batch]
            for row in range(first_rows[batch], first_rows[batch + 1]):
                if verdict == _RETAIN_ALL:
                    marks[row] = _RETAINED
                elif verdict == _RETAIN_ALL_UNTIL_HORIZON:
                    marks[row] = _RETAINED_UNTIL_HORIZON
                elif offsets[row] <= self.latest and (
                    key_lengths[row] < 0
                    or (verdict == _BY_KEY_WITHOUT_TOMBSTONES and value_lengths[row] < 0)
                    or self._is_replaced(offsets[row], hashes[2 * row], hashes[2 * row + 1])
                ):
                    marks[row] = _DISCARDED
                else:
                    marks[row] = _RETAINED_UNTIL_HORIZON if value_lengths[row] < 0 else _RETAINED
        return judged

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _is_replaced(
        self, offset: cython.longlong, hash_0: cython.ulonglong, hash_1: cython.ulonglong
    ) -> cython.longlong:
        """Whether a later record has this key."""
        found: cython.longlong = self.slots[self._find(hash_0, hash_1) + 2]
        return offset + 1 < found

    @cython.cfunc
    def _hashes(self, content: Buffer, columns: Any) -> Any:
        """Both halves of the hash of each key, in order.

        All hashes are computed before the first look-up, so that memory accesses overlap.
        """
        self.view = content
        key_starts: cython.longlong[::1] = columns.key_starts
        key_lengths: cython.longlong[::1] = columns.key_lengths
        total: cython.Py_ssize_t = len(columns.key_starts)
        hashes = array("Q", bytes(16 * total))
        halves: cython.ulonglong[::1] = hashes
        row: cython.Py_ssize_t
        for row in range(total):
            if key_lengths[row] >= 0:
                self._hash(key_starts[row], key_lengths[row])
                halves[2 * row] = self.hash_0
                halves[2 * row + 1] = self.hash_1
        return hashes

    def hash(self, key: bytes) -> tuple[int, int]:
        """Both halves of a key's hash."""
        self.view = key
        self._hash(0, len(key))
        return self.hash_0, self.hash_1

    @cython.cfunc
    @cython.exceptval(-1)
    def _set_table(self, slot_count: cython.longlong) -> cython.longlong:
        self.slot_count = slot_count
        self.count_max = max(1, min(slot_count - 1, int(slot_count * self.load_factor)))
        # A bytearray of zeros, whose pages the system allocates on first use.
        self.slots = memoryview(bytearray(slot_count * SLOT_BYTES)).cast("Q")
        return slot_count

    @cython.cfunc
    @cython.exceptval(-1)
    def _grow(self) -> cython.longlong:
        """Doubles the table if both tables fit into `bytes_max`; whether it did."""
        old: cython.ulonglong[::1] = self.slots
        old_words: cython.Py_ssize_t = len(self.slots)
        slot_count: cython.longlong = self.slot_count
        slot_count = min(slot_count * 2, self.bytes_max // SLOT_BYTES - slot_count)
        if slot_count <= cython.cast(cython.longlong, self.slot_count):
            return 0
        self._set_table(slot_count)
        at: cython.Py_ssize_t
        to: cython.Py_ssize_t
        for at in range(0, old_words, 3):
            if old[at + 2] != 0:
                to = self._find(old[at], old[at + 1])
                self.slots[to] = old[at]
                self.slots[to + 1] = old[at + 1]
                self.slots[to + 2] = old[at + 2]
        return 1

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _find(self, hash_0: cython.ulonglong, hash_1: cython.ulonglong) -> cython.Py_ssize_t:
        """The start of the slot of this hash, or of the free slot where it belongs."""
        # Scales the hash to the table: as uniform as a remainder, without a division.
        index: cython.ulonglong = (hash_0 >> 32) * self.slot_count >> 32
        at: cython.Py_ssize_t = 0
        while True:
            at = index * _SLOT_WORDS
            if self.slots[at + 2] == 0:
                return at
            if self.slots[at] == hash_0 and self.slots[at + 1] == hash_1:
                return at
            index += 1
            if index == self.slot_count:
                index = 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _hash(self, start: cython.longlong, length: cython.longlong) -> cython.longlong:
        """SipHash-2-4 with 128 bits, of the bytes in view."""
        v0: cython.ulonglong = self.secret_0 ^ _SIP_0
        v1: cython.ulonglong = self.secret_1 ^ _SIP_1 ^ 0xEE
        v2: cython.ulonglong = self.secret_0 ^ _SIP_2
        v3: cython.ulonglong = self.secret_1 ^ _SIP_3
        word: cython.ulonglong = 0
        words: cython.longlong = length // 8 + 1
        step: cython.longlong
        turn: cython.int
        # Two rounds per step: one step per word, then two steps per half of the hash.
        for step in range(words + 4):
            if step < words:
                word = self._word(start, length, step)
            elif step == words:
                word = 0
                v2 ^= 0xEE
            elif step == words + 2:
                self.hash_0 = v0 ^ v1 ^ v2 ^ v3
                v1 ^= 0xDD
            v3 ^= word
            for turn in range(2):  # noqa: B007 (a C loop needs its typed name)
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
            v0 ^= word
        self.hash_1 = v0 ^ v1 ^ v2 ^ v3
        return length

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _word(
        self, start: cython.longlong, length: cython.longlong, index: cython.longlong
    ) -> cython.ulonglong:
        """Eight bytes, the least significant first; the last word ends with the length."""
        word: cython.ulonglong = 0
        byte: cython.ulonglong = 0
        place: cython.longlong
        first: cython.longlong = start + 8 * index
        size: cython.longlong = length - 8 * index
        if size < 8:
            word = length & 0xFF
            word <<= 56
        for place in range(min(size, 8)):
            byte = self.view[first + place]
            word |= byte << (8 * place)
        return word
