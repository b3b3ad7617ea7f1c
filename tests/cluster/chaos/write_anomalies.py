"""Anomalies of the records themselves: lost, doubled, moved, reordered, aborted but visible.

- An acknowledged record is in the log, at the offset that was acknowledged.
- A record that a consumer has polled is in the log: it was below the high watermark.
- A record with an unknown outcome may be in the log, but once only: producers are idempotent.
- A record whose send failed definitely is not in the log.
- The records of a transaction are visible all together or not at all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.cluster.chaos.anomaly import Anomaly, FinalRead, Kind
from tests.cluster.chaos.history import (
    NO_OFFSET,
    Acknowledged,
    Event,
    Failed,
    Partition,
    Polled,
    Record,
    Sent,
    Step,
    Transaction,
)

Location = tuple[Partition, int]


@dataclass(slots=True)
class Writes:
    """The events of producers and the polled records, by value and by transaction."""

    sent: dict[str, Sent] = field(default_factory=dict)
    acknowledged: dict[str, list[Acknowledged]] = field(default_factory=dict)
    failed: dict[str, Failed] = field(default_factory=dict)
    steps: dict[str, set[Step]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    polled: list[tuple[Polled, Record]] = field(default_factory=list)
    readers: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Writes":
        found = cls()
        for event in events:
            match event:
                case Sent():
                    found.sent[event.value] = event
                    if event.transaction is not None:
                        found.members.setdefault(event.transaction, []).append(event.value)
                case Acknowledged():
                    found.acknowledged.setdefault(event.value, []).append(event)
                case Failed():
                    found.failed[event.value] = event
                case Transaction():
                    found.steps.setdefault(event.transaction, set()).add(event.step)
                case Polled():
                    for record in event.records:
                        found.polled.append((event, record))
                        found.readers.setdefault(record.value, set()).add(event.client)
        return found

    def outcome(self, transaction: str | None) -> Step:
        """Committed, aborted or unknown."""
        steps = self.steps.get(transaction or "", set())
        for known in (Step.COMMITTED, Step.ABORTED, Step.UNKNOWN):
            if known in steps:
                return known
        return Step.UNKNOWN if Step.COMMITTING in steps else Step.ABORTED

    def has_definitely_failed(self, value: str) -> bool:
        failure = self.failed.get(value)
        return failure is not None and failure.is_definite

    def clients(self, *values: str) -> tuple[str, ...]:
        """Who sent them and who polled them."""
        found = {self.sent[value].client for value in values if value in self.sent}
        for value in values:
            found |= self.readers.get(value, set())
        return tuple(sorted(found))

    def anomaly(
        self,
        kind: Kind,
        *values: str,
        partition: Partition | None = None,
        offsets: Sequence[int] = (),
        detail: str = "",
    ) -> Anomaly:
        if partition is None and values and values[0] in self.sent:
            partition = self.sent[values[0]].partition
        return Anomaly(kind, values, partition, tuple(offsets), self.clients(*values), detail)


def write_anomalies(writes: Writes, final: FinalRead) -> Iterator[Anomaly]:
    locations = _locations(writes, final)
    yield from _phantoms(writes, locations)
    yield from _lost(writes, final)
    yield from _torn(writes, final)
    yield from _aborted_reads(writes, final)
    yield from _duplicates(writes, locations)
    yield from _inconsistent_offsets(writes, locations)
    yield from _nonmonotonic_sends(writes, locations)


def _locations(writes: Writes, final: FinalRead) -> Mapping[str, set[Location]]:
    """Where each value was read."""
    found: dict[str, set[Location]] = {}
    polled = (record for _, record in writes.polled)
    for records in (final.committed, final.uncommitted, polled):
        for record in records:
            found.setdefault(record.value, set()).add((record.where, record.offset))
    return found


def _phantoms(writes: Writes, locations: Mapping[str, set[Location]]) -> Iterator[Anomaly]:
    for value, found in locations.items():
        if value not in writes.sent:
            partition, offset = min(found)
            yield writes.anomaly(Kind.PHANTOM, value, partition=partition, offsets=[offset])


def _acknowledged_offsets(writes: Writes, value: str) -> list[int]:
    found = {each.offset for each in writes.acknowledged.get(value, ())}
    return sorted(found - {NO_OFFSET})


def _lost(writes: Writes, final: FinalRead) -> Iterator[Anomaly]:
    for value, sent in writes.sent.items():
        why = _why_durable(writes, sent)
        if value in final.uncommitted_values:
            is_readable = value in final.committed_values or value not in writes.acknowledged
            if is_readable or sent.transaction is not None:
                continue
            why += ", but not readable with read_committed"
        if why:
            offsets = _acknowledged_offsets(writes, value)
            yield writes.anomaly(Kind.LOST_WRITE, value, offsets=offsets, detail=why)


def _why_durable(writes: Writes, sent: Sent) -> str:
    """The reason why the record must be in the log, or nothing."""
    if sent.value in writes.acknowledged:
        return "acknowledged"
    if sent.value in writes.readers:
        return "polled"
    if writes.has_definitely_failed(sent.value):
        return ""
    is_committed = writes.outcome(sent.transaction) is Step.COMMITTED
    return f"committed in {sent.transaction}" if is_committed else ""


def _torn(writes: Writes, final: FinalRead) -> Iterator[Anomaly]:
    """Transactions of which a part is not visible. A part that has to be there is a lost write."""
    for transaction, values in writes.members.items():
        outcome = writes.outcome(transaction)
        if outcome is Step.ABORTED:
            continue
        members = [value for value in values if not writes.has_definitely_failed(value)]
        hidden = [
            value
            for value in members
            if value not in final.committed_values
            and (value in final.uncommitted_values or not _why_durable(writes, writes.sent[value]))
        ]
        visible = sum(value in final.committed_values for value in members)
        if hidden and (visible or outcome is Step.COMMITTED):
            detail = f"{transaction} {outcome}: {visible} of {len(members)} records visible"
            yield writes.anomaly(Kind.TORN_TRANSACTION, *hidden, detail=detail)


def _aborted_reads(writes: Writes, final: FinalRead) -> Iterator[Anomaly]:
    polled_committed = {record.value for event, record in writes.polled if event.is_read_committed}
    for value, sent in writes.sent.items():
        why = ""
        is_seen = value in polled_committed or value in final.committed_values
        if writes.has_definitely_failed(value):
            if is_seen or value in final.uncommitted_values or value in writes.readers:
                why = f"its send failed: {writes.failed[value].reason}"
        elif sent.transaction is not None:
            outcome = writes.outcome(sent.transaction)
            is_hidden = value in final.uncommitted_values and value not in final.committed_values
            if outcome is Step.ABORTED and is_seen:
                why = f"{sent.transaction} was aborted"
            elif outcome is Step.UNKNOWN and value in polled_committed and is_hidden:
                why = f"{sent.transaction} was aborted in the end"
        if why:
            offsets = _acknowledged_offsets(writes, value)
            yield writes.anomaly(Kind.ABORTED_READ, value, offsets=offsets, detail=why)


def _duplicates(writes: Writes, locations: Mapping[str, set[Location]]) -> Iterator[Anomaly]:
    for value, found in locations.items():
        if len(found) > 1:
            where = sorted(found)
            partitions = {partition for partition, _ in where}
            yield writes.anomaly(
                Kind.DUPLICATE,
                value,
                partition=where[0][0],
                offsets=[offset for _, offset in where],
                detail=", ".join(map(str, sorted(partitions))) if len(partitions) > 1 else "",
            )


def _inconsistent_offsets(
    writes: Writes, locations: Mapping[str, set[Location]]
) -> Iterator[Anomaly]:
    """Two values at one offset, or a value that was read elsewhere than it was acknowledged."""
    held: dict[Location, set[str]] = {}
    for value, found in locations.items():
        for location in found:
            held.setdefault(location, set()).add(value)
    moved: list[tuple[str, Partition, int]] = []
    for value, events in writes.acknowledged.items():
        for event in events:
            if event.offset == NO_OFFSET:
                continue
            location = (event.partition, event.offset)
            held.setdefault(location, set()).add(value)
            if value in locations and location not in locations[value]:
                moved.append((value, *location))
    for (partition, offset), values in held.items():
        if len(values) > 1:
            yield writes.anomaly(
                Kind.INCONSISTENT_OFFSETS, *sorted(values), partition=partition, offsets=[offset]
            )
    for value, partition, offset in moved:
        if len(held[partition, offset]) > 1:
            continue
        read_at = ", ".join(f"{where} at {at}" for where, at in sorted(locations[value]))
        yield writes.anomaly(
            Kind.INCONSISTENT_OFFSETS,
            value,
            partition=partition,
            offsets=[offset],
            detail=f"acknowledged there, read in {read_at}",
        )


def _nonmonotonic_sends(
    writes: Writes, locations: Mapping[str, set[Location]]
) -> Iterator[Anomaly]:
    """Records of one producer that are in a partition in another order than they were sent."""
    last: dict[tuple[str, int, Partition], tuple[str, int]] = {}
    for value, sent in writes.sent.items():
        found = locations.get(value, set())
        if len(found) != 1:
            continue
        ((partition, offset),) = found
        line = (sent.client, sent.producer, partition)
        earlier, earlier_offset = last.get(line, ("", -1))
        if offset < earlier_offset:
            yield writes.anomaly(
                Kind.NONMONOTONIC_SEND,
                earlier,
                value,
                partition=partition,
                offsets=[earlier_offset, offset],
            )
        else:
            last[line] = (value, offset)
