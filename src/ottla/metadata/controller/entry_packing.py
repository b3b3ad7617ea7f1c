"""Many wishes of one request, decided together: one entry of the log for as many as it holds.

An entry costs a sync of the disk, whatever is in it. Decides, does no I/O.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from ottla.errors import PeerError
from ottla.metadata.entry_codec import ENTRY_BYTES_MAX, encode
from ottla.metadata.records import Config, Partition, Record

Wish = TypeVar("Wish")
Reply = TypeVar("Reply")
Item = TypeVar("Item")

# Both bound the time of one decision. So many partitions of six replicas also fit one entry: each
# needs less than one of its 512 kilobytes.
MAX_CHANGES_PER_ENTRY = 500
MAX_RECORDS_PER_ENTRY = 500

# The most that a record needs in an entry. A partition of six replicas needs about 600 bytes, any
# other record but a setting is little more than a topic's name.
_PARTITION_BYTES_MAX = 1 << 10
_SMALL_RECORD_BYTES_MAX = 512


def decide_entry(
    wishes: Sequence[Wish], decide: Callable[[Wish], tuple[list[Record], Reply]]
) -> tuple[list[Record], list[Reply | PeerError]]:
    """Records and outcomes of the first wishes, as many as make one entry; of one at least.

    `decide` knows of all wishes that it decided before. What it refuses takes no room.
    """
    records: list[Record] = []
    outcomes: list[Reply | PeerError] = []
    left_bytes = ENTRY_BYTES_MAX
    for wish in wishes[:MAX_CHANGES_PER_ENTRY]:
        try:
            decided, reply = decide(wish)
        except PeerError as error:
            outcomes.append(error)
            continue
        left_bytes -= sum(map(_bytes_max, decided))
        is_full = left_bytes < 0 or len(records) + len(decided) > MAX_RECORDS_PER_ENTRY
        if records and is_full:
            break
        records += decided
        outcomes.append(reply)
    return records, outcomes


def in_entries(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Records, or what becomes a record each, in portions that an entry can hold."""
    left = iter(items)
    while portion := list(islice(left, MAX_RECORDS_PER_ENTRY)):
        yield portion


def _bytes_max(record: Record) -> int:
    if isinstance(record, Partition):
        return _PARTITION_BYTES_MAX
    if isinstance(record, Config):
        return len(encode((record,)))
    return _SMALL_RECORD_BYTES_MAX
