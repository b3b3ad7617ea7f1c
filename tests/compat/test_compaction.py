"""Every client reads a compacted topic, Kafka's tool finds its files sound, its worker may die."""

import os
import shutil
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.storage.compaction.cleaner_protocol import WORKER_MODULE
from ottla.testing import Broker
from tests.support.clients import CLIENTS, name_of
from tests.support.clients.admins import LibrdkafkaAdmin
from tests.support.clients.client import WAIT_S, Client, Stored
from tests.support.clients.kcat import Kcat
from tests.support.compat.java_tools import run_tool
from tests.support.compat.kafka_dump_lines import by_file, kafka_lines, ottla_dump

TOPIC = "compacted"
SEGMENT_BYTES = 1 << 20
RECORDS, KEYS = 40_000, 100
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.segment.bytes": str(SEGMENT_BYTES)}
# A segment that does not begin at offset 0 gets this remark from the tool, and so does a gap.
REMARKS = ("Non-consecutive offsets in", "  ")
DIRTINESS = "kafka_log_logcleanermanager_max_dirty_percent"
DUMPED = (".log", ".index", ".timeindex", ".snapshot")

Expected = dict[bytes, bytes | None]


@pytest.fixture(scope="module")
def compacting() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module")
def expected(compacting: Broker) -> Expected:
    """The records that a reader must find after the compaction."""
    LibrdkafkaAdmin(compacting.bootstrap_servers).create(TOPIC, 1, {"cleanup.policy": "compact"})
    latest: Expected = {}
    for number, codec in enumerate(CODECS):
        latest |= write(compacting, codec, first=number * RECORDS)
    wait_until_compacted(compacting)
    return latest


def write(broker: Broker, codec: str, *, first: int) -> Expected:
    """Some records for each of a few keys; each tenth key ends with a tombstone."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 500,
        }
    )
    latest: Expected = {}
    for number in range(first, first + RECORDS):
        key = b"key %d" % (number % KEYS)
        is_gone = number % 10 == 0 and number >= first + RECORDS - KEYS
        # Of little use to a codec, so that there is something to compact.
        latest[key] = None if is_gone else b"%d %s" % (number, os.urandom(40).hex().encode())
        producer.produce(TOPIC, key=key, value=latest[key], partition=0)
        if number % 5_000 == 0:
            producer.poll(0.1)
    assert producer.flush(WAIT_S) == 0
    return latest


def wait_until_compacted(broker: Broker) -> None:
    """All but the active segment holds at most a record for each key, and some empty batches."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        # What is being swapped has no name for a moment: then the cleaner is not through.
        sizes = [size_of(path) for path in logs(broker)]
        if sum(sizes[:-1]) < SEGMENT_BYTES // 4 and is_idle(broker):
            return
        time.sleep(0.05)
    pytest.fail(f"not compacted: {sizes}")


def is_idle(broker: Broker) -> bool:
    """Whether the cleaner, when it last looked, found nothing to do."""
    url = f"http://{broker.metrics_address}/metrics"
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    (dirtiness,) = [float(line.split()[1]) for line in lines if line.startswith(f"{DIRTINESS} ")]
    return dirtiness == 0


def logs(broker: Broker) -> list[Path]:
    return sorted(Path(broker.directory, f"{TOPIC}-0").glob("*.log"))


def read_all(servers: str) -> list[Stored]:
    """From the first record to the end, however many that are."""
    return Kcat().read(servers, TOPIC, 10**9)


def folded(stored: list[Stored]) -> Expected:
    return {record.key or b"": record.value for record in stored}


def test_compaction_keeps_the_last_record_of_each_key_at_its_offset(
    compacting: Broker, expected: Expected
) -> None:
    stored = read_all(compacting.bootstrap_servers)
    assert folded(stored) == expected
    assert len(stored) < RECORDS
    offsets = [record.offset for record in stored]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == len(CODECS) * RECORDS - 1
    assert offsets[0] > 0, "there are gaps"


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
def test_a_client_reads_on_over_the_gaps(
    client: Client, compacting: Broker, expected: Expected
) -> None:
    stored = read_all(compacting.bootstrap_servers)
    amount = len(stored)
    found = client.read(compacting.bootstrap_servers, TOPIC, amount)
    assert [(each.offset, each.key) for each in found] == [(e.offset, e.key) for e in stored]
    assert folded(found).keys() == expected.keys()


def test_kafka_finds_the_files_sound(
    compacting: Broker, expected: Expected, tmp_path: Path
) -> None:
    compacting.stop()
    copied = tmp_path / f"{TOPIC}-0"
    shutil.copytree(Path(compacting.directory, copied.name), copied)
    compacting.start()
    paths = sorted(path for path in copied.iterdir() if path.suffix in DUMPED and size_of(path))
    printed = dump("--deep-iteration", "--print-data-log", paths=paths)
    kafkas = by_file(printed)
    ours = ottla_dump(*paths)
    for path in paths:
        name = f"{copied.name}/{path.name}"
        assert kafka_lines(ours[name]) == kafkas[name], name
    assert [line for line in kafkas.get("", []) if not line.startswith(REMARKS)] == []
    assert "isvalid: false" not in printed
    indexes = [path for path in paths if path.suffix in (".index", ".timeindex")]
    sanity = by_file(dump("--index-sanity-check", paths=indexes))
    assert sanity.pop("", []) == []
    assert {
        line.endswith("passed sanity check.") for lines in sanity.values() for line in lines
    } == {True}
    assert expected


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return SEGMENT_BYTES


def dump(*options: str, paths: list[Path]) -> str:
    files = ",".join(map(str, paths))
    return run_tool("DumpLogSegments", *options, "--files", files).decode()


def test_a_worker_that_is_killed_is_started_anew(tmp_path: Path) -> None:
    others = broker_threads()
    with Broker(SETTINGS, directory=str(tmp_path)) as broker:
        (thread,) = broker_threads() - others
        LibrdkafkaAdmin(broker.bootstrap_servers).create(TOPIC, 1, {"cleanup.policy": "compact"})
        write(broker, "none", first=0)
        wait_until_compacted(broker)
        (killed,) = workers_of(thread)
        os.kill(killed, signal.SIGKILL)
        latest = write(broker, "lz4", first=RECORDS)
        wait_until_compacted(broker)
        assert folded(read_all(broker.bootstrap_servers)) == latest
        (now,) = workers_of(thread)
        assert now != killed
    assert not Path(f"/proc/{now}").exists(), "none outlives its broker"


def broker_threads() -> set[int]:
    """Those in which a broker runs: not only this test has one in this process."""
    running = threading.enumerate()
    return {thread.native_id or 0 for thread in running if thread.name == "ottla-broker"}


def workers_of(thread: int) -> set[int]:
    """The processes that compact for the broker in that thread, which are the thread's children."""
    found = set()
    for pid in map(int, Path(f"/proc/self/task/{thread}/children").read_text().split()):
        # One that was killed may go meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if WORKER_MODULE.encode() in command:
                found.add(pid)
    return found
