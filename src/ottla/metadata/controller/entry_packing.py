"""Packs the changes of one request into as few entries of the log as possible.

Each entry costs one sync of the disk, whatever its size. Decides, does no I/O.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from ottla.errors import PeerError
from ottla.metadata.entry_codec import ENTRY_BYTES_MAX, encode
from ottla.metadata.records import Broker, Config, Partition, Record

Change = TypeVar("Change")
Reply = TypeVar("Reply")
Item = TypeVar("Item")

# Both bound the time of one decision. So many partitions also fit one entry of 512 KiB, even if all
# of them are moving between twelve brokers.
MAX_CHANGES_PER_ENTRY = 500
MAX_RECORDS_PER_ENTRY = 480

# The most bytes that a record needs in an entry. A partition of six replicas needs about 600 bytes,
# while it moves twice as much; any other record, except a broker or a config, is little longer than
# a topic's name.
_PARTITION_BYTES_MAX = 1_088
_SMALL_RECORD_BYTES_MAX = 512


class EntryRoom:
    """What is left of an entry."""

    __slots__ = ("_bytes", "_records")

    def __init__(self) -> None:
        self._bytes = ENTRY_BYTES_MAX
        self._records = MAX_RECORDS_PER_ENTRY

    def has_room_for(self, records: Sequence[Record]) -> bool:
        return len(records) <= self._records and sum(map(_bytes_max, records)) <= self._bytes

    def take(self, records: Sequence[Record]) -> None:
        self._records -= len(records)
        self._bytes -= sum(map(_bytes_max, records))


def decide_entry(
    changes: Sequence[Change], decide: Callable[[Change], tuple[list[Record], Reply]]
) -> tuple[list[Record], list[Reply | PeerError]]:
    """Records and outcomes of the first changes, as many as fit one entry; at least of one change.

    `decide` sees the changes that it decided before. Refused changes have no records.
    """
    records: list[Record] = []
    outcomes: list[Reply | PeerError] = []
    room = EntryRoom()
    for change in changes[:MAX_CHANGES_PER_ENTRY]:
        try:
            decided, reply = decide(change)
        except PeerError as error:
            outcomes.append(error)
            continue
        if records and not room.has_room_for(decided):
            break
        room.take(decided)
        records += decided
        outcomes.append(reply)
    return records, outcomes


def in_entries(
    items: Iterable[Item], items_max: int = MAX_RECORDS_PER_ENTRY
) -> Iterator[list[Item]]:
    """Divides items of one record each into portions that fit one entry."""
    left = iter(items)
    while portion := list(islice(left, items_max)):
        yield portion


def _bytes_max(record: Record) -> int:
    if isinstance(record, Partition):
        return _PARTITION_BYTES_MAX
    if isinstance(record, Broker | Config):
        return len(encode((record,)))
    return _SMALL_RECORD_BYTES_MAX
