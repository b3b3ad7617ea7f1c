"""Data files are readable only by the broker's user, whatever the umask is."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.seams.files import RealFiles
from ottla.testing import Broker

OTHERS = stat.S_IRWXG | stat.S_IRWXO
WAIT_S = 120.0


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def write(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    for topic in ("one", "two"):
        producer.produce(topic, b"secret")
    assert producer.flush(WAIT_S) == 0


def test_data_directories_are_not_world_readable(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = Broker(directory=str(data))
    for _ in range(2):
        broker.start()
        write(broker)
        broker.stop()
    found = [data, *data.rglob("*")]
    assert {path.name for path in found} >= {"one-0", "meta.properties", "incarnation.json"}
    assert [f"{path} {mode(path):o}" for path in found if mode(path) & OTHERS] == []


def test_a_directory_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(0o750)
    broker = Broker(directory=str(data))
    broker.start()
    broker.stop()
    assert mode(data) == 0o750


def test_exported_files_are_readable_for_others(tmp_path: Path) -> None:
    files = RealFiles(shared=True)
    files.make_dir(f"{tmp_path}/made")
    files.create(f"{tmp_path}/made/archive").close()
    assert [mode(tmp_path / name) for name in ("made", "made/archive")] == [0o755, 0o644]
