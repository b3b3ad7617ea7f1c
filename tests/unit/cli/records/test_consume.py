"""`ottla consume` against a broker."""

import signal
import subprocess
import sys

import pytest

from ottla.protocol.compression import Codec
from ottla.testing.broker import Broker
from tests.support.child_processes import child
from tests.support.cli.run_command import at
from tests.support.forged_batches import forged
from tests.support.raw_produce import store_batch
from tests.unit.cli.conftest import AtBroker


def test_it_stops_at_the_end_and_shows_everything_about_a_record_as_json(
    at_broker: AtBroker, topic: str
) -> None:
    at_broker("produce", topic, "-K", ":", "-H", "h=1", text="k:v\n")
    ran = at_broker("consume", topic, "-o", "jsonl")
    (row,) = ran.rows
    assert row.pop("timestamp") > 0
    assert row == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "key": "k",
        "value": "v",
        "headers": [["h", "1"]],
    }
    assert (ran.exit_code, ran.stderr) == (0, "")


def test_keys_are_printed_before_values_if_requested(at_broker: AtBroker, topic: str) -> None:
    at_broker("produce", topic, "-K", ":", text="k:v\n")
    at_broker("produce", topic, text="keyless\n")
    assert at_broker("consume", topic, "-o", "key-value").stdout == "k\tv\n\tkeyless\n"
    assert at_broker("consume", topic, "-o", "key-value", "-K", "=").stdout == "k=v\n=keyless\n"


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("beginning", "0\n1\n2\n3\n"),
        ("2", "2\n3\n"),
        ("end", ""),
        ("99", ""),
        ("1h", "0\n1\n2\n3\n"),
        ("2001-01-01", "0\n1\n2\n3\n"),
        ("2199-01-01T12:00+02:00", ""),
    ],
)
def test_it_starts_at_the_requested_position(
    at_broker: AtBroker, topic: str, place: str, expected: str
) -> None:
    at_broker("produce", topic, text="0\n1\n2\n3\n")
    ran = at_broker("consume", topic, "--from", place)
    assert (ran.exit_code, ran.stdout) == (0, expected)


def test_it_reads_only_the_partitions_that_were_named(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic, "-p", "3")
    for partition in "012":
        at_broker("produce", topic, "--partition", partition, text=f"p{partition}\n")
    ran = at_broker("consume", topic, "--partition", "2", "--partition", "0")
    assert sorted(ran.stdout.split()) == ["p0", "p2"]


def test_it_stops_after_the_requested_number(at_broker: AtBroker, topic: str) -> None:
    at_broker("produce", topic, text="0\n1\n2\n3\n")
    assert at_broker("consume", topic, "--max", "3").stdout == "0\n1\n2\n"


def test_many_records_arrive_in_order(at_broker: AtBroker, topic: str) -> None:
    text = "".join(f"{number:0100}\n" for number in range(30_000))
    at_broker("produce", topic, "--codec", "lz4", text=text)
    assert at_broker("consume", topic).stdout == text


def test_a_topic_that_does_not_exist_is_not_found_and_not_made(
    at_broker: AtBroker, topic: str
) -> None:
    ran = at_broker("consume", topic)
    assert ran.exit_code == 4
    assert f"error: no topic '{topic}'" in ran.stderr
    assert at_broker("topic", "describe", topic).exit_code == 4


def test_an_offset_that_was_trimmed_is_passed_over_and_said(
    at_broker: AtBroker, topic: str
) -> None:
    at_broker("produce", topic, text="0\n1\n2\n3\n")
    at_broker("topic", "trim", topic, "--before", "3", "--yes")
    ran = at_broker("consume", topic, "--from", "1")
    assert ran.stdout == "3\n"
    assert ran.stderr == f"{topic}-0: 2 records deleted before being read\n"


@pytest.mark.parametrize("group", [(), ("--group", "g")])
def test_a_batch_that_cannot_be_read_is_passed_over_and_said(
    at_broker: AtBroker, broker: Broker, topic: str, group: tuple[str, ...]
) -> None:
    at_broker("produce", topic, text="before\n")
    store_batch(broker.bootstrap_servers, topic, forged(b"garbage", Codec.ZSTD, count=2))
    at_broker("produce", topic, text="behind\n")
    ran = at_broker("consume", topic, *group)
    assert (ran.exit_code, ran.stdout) == (0, "before\nbehind\n")
    assert f"{topic}-0: the batch of offsets 1 to 2 cannot be read (zstd: " in ran.stderr


def test_following_shows_new_records_and_exits_with_130_when_interrupted(
    broker: Broker, at_broker: AtBroker, topic: str
) -> None:
    at_broker("produce", topic, text="before\n")
    command = [sys.executable, "-m", "ottla.cli", "consume", topic, "--follow", "--from", "0"]
    with child([*command, *at(broker.bootstrap_servers)]) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "before\n"
        at_broker("produce", topic, text="after\n")
        assert following.stdout.readline() == "after\n"
        following.send_signal(signal.SIGINT)
        _, stderr = following.communicate(timeout=60)
    assert following.returncode == 130
    assert stderr == ""


def test_a_closed_output_pipe_is_not_an_error(
    broker: Broker, at_broker: AtBroker, topic: str
) -> None:
    at_broker("produce", topic, text="line\n" * 50_000)
    where = " ".join(at(broker.bootstrap_servers))
    ottla = f"{sys.executable} -m ottla.cli consume {topic} {where}"
    finished = subprocess.run(
        f"{ottla} | head -n 1", shell=True, capture_output=True, text=True, check=True
    )
    assert finished.stdout == "line\n"
    assert "Traceback" not in finished.stderr
