"""What is known of a compacted topic from outside: a dictionary of its keys, with their offsets."""

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.protocol.batch import Record

NUMBER = "number"


class Sent(NamedTuple):
    """A record as it was sent; its number is in its header, and tells it from all others."""

    number: int
    key: bytes
    value: bytes | None
    sent_ms: int

    def record(self, offset: int) -> Record:
        header = (NUMBER, b"%d" % self.number)
        return Record(offset, self.sent_ms, self.key, self.value, (header,))


def number_of(record: Record) -> int:
    ((name, value),) = record.headers
    assert name == NUMBER
    return int(value or b"")


@dataclass(slots=True)
class CompactedHistory:
    """`check` says what a reader must have found who read to the end, from some offset on."""

    delete_retention_ms: int
    sent: list[Sent] = field(default_factory=list)
    # The last record of each key that was acknowledged, by its offset.
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    acknowledged_end: int = 0
    # By offset, what was sent; and the other way round.
    seen: dict[int, int] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def send(self, key: bytes, value: bytes | None, now_ms: int) -> Sent:
        self.sent.append(Sent(len(self.sent), key, value, now_ms))
        return self.sent[-1]

    def acknowledge(self, first_offset: int, sent: list[Sent]) -> None:
        for offset, each in enumerate(sent, first_offset):
            self._place(offset, each.number)
            self.acknowledged[each.key] = max(offset, self.acknowledged.get(each.key, -1))
        self.acknowledged_end = max(self.acknowledged_end, first_offset + len(sent))

    def lose_power(self) -> None:
        """Of what nobody vouched for, other records may take the place."""
        lost = [offset for offset in self.seen if offset >= self.acknowledged_end]
        for offset in lost:
            del self.places[self.seen.pop(offset)]

    def see(self, record: Record) -> None:
        """Somebody read this: what was sent, where it has always been, and nowhere else."""
        sent = self.sent[number_of(record)]
        found = (record.key, record.value, record.timestamp)
        assert found == (sent.key, sent.value, sent.sent_ms), f"{found} where {sent} was sent"
        self._place(record.offset, sent.number)

    def _place(self, offset: int, number: int) -> None:
        was = self.seen.setdefault(offset, number)
        assert was == number, f"offset {offset} was {self.sent[was]}, now {self.sent[number]}"
        place = self.places.setdefault(number, offset)
        assert place == offset, f"{self.sent[number]} at {place} and at {offset}"

    def check(
        self, served: dict[int, bytes], promised: dict[bytes, int], start_offset: int, now_ms: int
    ) -> None:
        """`served` are keys by offset, `promised` is what was acknowledged before the read."""
        latest = {key: offset for offset, key in sorted(served.items())}
        for key, offset in promised.items():
            if offset < start_offset or latest.get(key, -1) >= offset:
                continue
            assert self._is_deleted(key, offset, now_ms), (
                f"the last record of {key!r} is missing, offset {offset}:"
                f" {self.sent[self.seen[offset]]}"
            )
            assert key not in latest, f"{key!r} is back at {latest[key]}, offset {offset} is gone"

    def _is_deleted(self, key: bytes, offset: int, now_ms: int) -> bool:
        """Whether a tombstone may have gone by now that stood there, or behind it."""
        return any(
            sent.key == key
            and sent.value is None
            and now_ms >= sent.sent_ms + self.delete_retention_ms
            and self.places.get(sent.number, offset) >= offset
            for sent in self.sent
        )
