"""`ottla log dump` prints the recorded output of Kafka's own tool for Kafka's directories."""

from pathlib import Path

import pytest

from tests.support.compat.kafka_dump_lines import (
    by_file,
    kafka_lines,
    ottla_dump,
    without_key_and_payload,
)
from tests.support.disk_vectors import DISK, recorded_dump, unpack

# Kafka shows the keys and values of its own topics decoded.
DECODED = ("__cluster_metadata", "__consumer_offsets", "__transaction_state")
COMPARED = (".log", ".txnindex", ".snapshot")


@pytest.mark.parametrize(
    "case", sorted(path.name.removesuffix(".dump.txt.gz") for path in DISK.glob("*.dump.txt.gz"))
)
def test_our_dump_equals_the_recorded_one_line_by_line(case: str, tmp_path: Path) -> None:
    directory = unpack(case, tmp_path)
    recorded = {
        name: lines
        for name, lines in by_file(recorded_dump(case)).items()
        if name.endswith(COMPARED)
    }
    found = ottla_dump(*(directory / name for name in recorded))
    assert sum(map(len, recorded.values())) > 0
    for name, lines in recorded.items():
        ours = kafka_lines(found[name])
        if name.startswith(DECODED):
            ours = [without_key_and_payload(line) for line in ours]
            lines = [without_key_and_payload(line) for line in lines]
        assert ours == lines, name
