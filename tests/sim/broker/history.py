"""What clients sent, were promised and have read: what no crash may contradict.

With `flush.messages=1` an acknowledged offset vouches for all that lies below it; what was read
beyond the last acknowledged one may be gone after a power loss, and something else be there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.protocol.primitives import Uuid


class Sent(NamedTuple):
    """A value, by whom and as which of his it was sent. No value is sent by two."""

    producer: str
    number: int
    may_repeat: bool


@dataclass(slots=True)
class PartitionHistory:
    """One partition's. Each check is an AssertionError where the broker broke its word."""

    name: str
    sent: dict[bytes, Sent] = field(default_factory=dict)
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    acknowledged_end: int = 0
    _places: dict[bytes, int] = field(default_factory=dict)
    _seen: dict[int, bytes] = field(default_factory=dict)

    def send(self, value: bytes, sent: Sent) -> None:
        self.sent[value] = sent

    def acknowledge(self, base_offset: int, values: Sequence[bytes]) -> None:
        """A producer heard that its batch is there."""
        for offset, value in enumerate(values, base_offset):
            first = self._places.setdefault(value, offset)
            assert first == offset or self.sent[value].may_repeat, (
                f"{self.name}: {value!r} was acknowledged at {first}, and again at {offset}"
            )
            self._agree(offset, value)
            self.acknowledged[offset] = value
        self.acknowledged_end = max(self.acknowledged_end, base_offset + len(values))

    def see(self, offset: int, value: bytes, *, is_current: bool) -> None:
        """A consumer has read this. Not `current`: before a power loss that came since."""
        assert value in self.sent, f"{self.name}: {value!r} at {offset} was never sent there"
        if is_current or offset < self.acknowledged_end:
            self._agree(offset, value)
            self._seen[offset] = value

    def see_old(self, offset: int, value: bytes, kept_end: int) -> None:
        """The same from before a loss, which has spared what lies below `kept_end`."""
        assert value in self.sent, f"{self.name}: {value!r} at {offset} was never sent there"
        if offset < kept_end:
            self._agree(offset, value)

    def lose_power(self) -> None:
        """What nobody vouched for may be gone."""
        self._seen = {
            offset: value for offset, value in self._seen.items() if offset < self.acknowledged_end
        }

    def forget(self) -> None:
        """Nothing is promised any more of what there was so far."""
        self.acknowledged.clear()
        self.acknowledged_end = 0
        self._places.clear()
        self._seen.clear()

    def check_log(self, start_offset: int, values: Sequence[bytes]) -> None:
        """The whole log, read in peace: nothing missing, nothing twice, all in order."""
        self.check_records(dict(enumerate(values, start_offset)))

    def check_records(self, log: Mapping[int, bytes]) -> None:
        """The same by offset, in the order of offsets, of a log with control records."""
        for promised, what in ((self.acknowledged, "acknowledged"), (self._seen, "read")):
            for offset, value in promised.items():
                assert log.get(offset) == value, (
                    f"{self.name}: {value!r} was {what} at {offset}, where now is"
                    f" {log.get(offset)!r}; the log ends at {max(log, default=-1) + 1}"
                )
        self._check_order(log.values())

    def _check_order(self, values: Iterable[bytes]) -> None:
        latest: dict[str, int] = {}
        stored: set[bytes] = set()
        for value in values:
            assert value in self.sent, f"{self.name}: {value!r} was never sent there"
            sent = self.sent[value]
            if value in stored:
                assert sent.may_repeat, f"{self.name}: {value!r} is stored twice"
                continue
            stored.add(value)
            before = latest.get(sent.producer, -1)
            assert sent.number > before, f"{self.name}: {value!r} follows number {before}"
            latest[sent.producer] = sent.number

    def _agree(self, offset: int, value: bytes) -> None:
        for known, what in ((self.acknowledged, "acknowledged"), (self._seen, "read")):
            before = known.get(offset, value)
            assert before == value, (
                f"{self.name}: {before!r} was {what} at {offset}, where now is {value!r}"
            )


class History:
    """All partitions of all topics that ever were, by topic id."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[Uuid, int], PartitionHistory] = {}
        self._producer_ids: set[int] = set()

    def partition(self, topic_id: Uuid, index: int) -> PartitionHistory:
        key = topic_id, index
        if key not in self._partitions:
            self._partitions[key] = PartitionHistory(f"{topic_id}-{index}")
        return self._partitions[key]

    def take_producer_id(self, producer_id: int) -> int:
        assert producer_id not in self._producer_ids, f"producer id {producer_id} was given twice"
        self._producer_ids.add(producer_id)
        return producer_id

    def lose_power(self) -> None:
        for partition in self._partitions.values():
            partition.lose_power()
