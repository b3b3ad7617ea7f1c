"""Every client reads exactly the records that any client wrote, with every codec."""

from pathlib import Path

import pytest

from ottla.broker.requests.served_apis import SERVED
from ottla.protocol.batch import BatchHeader, read_header
from ottla.protocol.compression import Codec
from ottla.testing import Broker
from tests.support.clients import CLIENTS, name_of
from tests.support.clients.client import CODECS, Client, numbered, samples, unlike
from tests.support.clients.kcat import Kcat
from tests.support.clients.librdkafka import Librdkafka

FIND_COORDINATOR = 10


@pytest.mark.parametrize("writer", CLIENTS, ids=name_of)
def test_every_client_reads_all_that_one_wrote_in_every_codec(
    writer: Client, broker: Broker, topic: str
) -> None:
    servers = broker.bootstrap_servers
    sent = samples(writer)
    for codec in CODECS:
        writer.write(servers, topic, sent, codec)
    expected = sent * len(CODECS)
    found = {reader.name: reader.read(servers, topic, len(expected)) for reader in CLIENTS}
    wrong = {name: unlike(expected, stored) for name, stored in found.items()}
    assert wrong == {reader.name: [] for reader in CLIENTS}
    times = {tuple(record.timestamp_ms for record in stored) for stored in found.values()}
    assert len(times) == 1, "they do not agree on the records' times"
    assert {Codec(header.codec) for header in batches(broker, topic)} == codecs_used_by(writer)


@pytest.mark.parametrize("reader", CLIENTS, ids=name_of)
def test_reading_begins_in_the_middle_of_a_compressed_batch(
    reader: Client, broker: Broker, topic: str
) -> None:
    sent = numbered(100, timestamps=True)
    Librdkafka().write(broker.bootstrap_servers, topic, sent, "zstd")
    largest = max(batches(broker, topic), key=lambda batch: batch.last_offset - batch.base_offset)
    first = (largest.base_offset + largest.last_offset) // 2
    assert largest.base_offset < first < largest.last_offset
    found = reader.read(broker.bootstrap_servers, topic, len(sent) - first, first=first)
    assert unlike(sent[first:], found, first=first) == []


def codecs_used_by(writer: Client) -> set[Codec]:
    """librdkafka takes a broker without this API to be too old for lz4, and does not compress."""
    if isinstance(writer, Librdkafka | Kcat) and FIND_COORDINATOR not in SERVED:
        return set(Codec) - {Codec.LZ4}
    return set(Codec)


def batches(broker: Broker, topic: str) -> list[BatchHeader]:
    """The batches of partition 0, as they lie on disk."""
    headers = []
    for path in sorted(Path(broker.directory, f"{topic}-0").glob("*.log")):
        content = path.read_bytes()
        position = 0
        while position < len(content):
            headers.append(read_header(content, position))
            position += headers[-1].size
    return headers
