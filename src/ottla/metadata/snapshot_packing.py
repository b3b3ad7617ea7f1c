"""Packs the records of a snapshot into entries, a slice at a time: other tasks run in between."""

import asyncio
from collections.abc import Iterable

from ottla.metadata.entry_codec import EntryPacker
from ottla.metadata.records import Record

# Takes about a millisecond.
PACKED_PER_SLICE = 64


async def pack(records: Iterable[Record]) -> list[bytes]:
    """The encoded entries. InvalidRecord or EntryTooLarge if a record is refused."""
    packer = EntryPacker()
    for number, record in enumerate(records, start=1):
        packer.add(record)
        if number % PACKED_PER_SLICE == 0:
            await asyncio.sleep(0)
    return packer.entries()
