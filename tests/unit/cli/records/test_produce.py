"""`ottla produce` against a broker."""

import json
import subprocess
import sys

import pytest

from ottla.cli.records.produce import LINE_BYTES_MAX, LineSplitter
from ottla.cli.shared.failure import Failure
from ottla.client.producer.partitioner import partition_of
from ottla.testing.broker import Broker
from tests.support.child_processes import child
from tests.support.cli.run_command import at
from tests.unit.cli.conftest import AtBroker


@pytest.mark.parametrize(
    "chunks",
    [[b"a\nbc\n\nd"], [b"a", b"\n", b"b", b"c\n", b"\nd"], [b"a\nb", b"c\n\n", b"d"]],
)
def test_lines_are_the_same_however_the_input_is_cut(chunks: list[bytes]) -> None:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.lines(chunk)]
    assert (lines, splitter.rest()) == ([b"a", b"bc", b""], b"d")


def test_a_line_without_end_is_given_up() -> None:
    splitter = LineSplitter()
    half = bytes(LINE_BYTES_MAX // 2)
    assert splitter.lines(half) == splitter.lines(half) == []
    with pytest.raises(Failure, match="longer than"):
        splitter.lines(b"x")


def test_each_line_is_a_record_and_the_last_needs_no_end(at_broker: AtBroker, topic: str) -> None:
    sent = at_broker("produce", topic, text="one\n\ntwo")
    assert (sent.exit_code, sent.stdout) == (0, "")
    assert sent.stderr == f"sent 3 records to {topic}\n"
    assert at_broker("consume", topic).stdout == "one\n\ntwo\n"


def test_bytes_that_are_no_text_arrive_as_they_are(at_broker: AtBroker, topic: str) -> None:
    at_broker("produce", topic, text=b"\xff\x00\xfe\n")
    (row,) = at_broker("consume", topic, "-o", "jsonl").rows
    assert row["value"] == {"base64": "/wD+"}


def test_keys_decide_the_partition_as_for_every_kafka_client(
    at_broker: AtBroker, topic: str
) -> None:
    at_broker("topic", "create", topic, "-p", "7")
    keys = [f"key-{number}" for number in range(20)]
    at_broker("produce", topic, "-K", "::", text="".join(f"{key}::v\n" for key in keys))
    rows = at_broker("consume", topic, "-o", "jsonl").rows
    assert {row["key"]: row["partition"] for row in rows} == {
        key: partition_of(key.encode(), 7) for key in keys
    }


def test_records_without_keys_spread_over_all_partitions(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic, "-p", "3")
    # More than one chunk of input, each for one partition.
    at_broker("produce", topic, text="x" * 99 + "\n" + ("y" * 99 + "\n") * 6_000)
    rows = at_broker("topic", "describe", topic, "-o", "jsonl").rows_of("partition")
    assert sum(row["end_offset"] for row in rows) == 6_001
    assert all(row["end_offset"] > 0 for row in rows)


def test_headers_and_partition_are_those_that_were_given(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic, "-p", "3")
    options = ("-H", "a=1", "-H", "a=2=3", "--partition", "2", "-K", ":")
    at_broker("produce", topic, *options, text="k:v\n")
    (row,) = at_broker("consume", topic, "-o", "jsonl").rows
    assert (row["partition"], row["headers"]) == (2, [["a", "1"], ["a", "2=3"]])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_codec_and_every_acks_arrives(
    at_broker: AtBroker, topic: str, codec: str, acks: str
) -> None:
    at_broker("topic", "create", topic)
    sent = at_broker("produce", topic, "--codec", codec, "--acks", acks, text="same\n" * 50)
    assert sent.exit_code == 0
    assert at_broker("consume", topic, "--follow", "--from=beginning", "--max=50").stdout == (
        "same\n" * 50
    )


def test_a_line_without_a_key_ends_the_command_and_reports_the_sent_records(
    at_broker: AtBroker, topic: str
) -> None:
    ran = at_broker("produce", topic, "-K", ":", text="k:v\nno key")
    assert ran.exit_code == 1
    assert "line 2 has no key separator ':'" in ran.stderr
    assert "1 records before it were sent" in ran.stderr
    assert at_broker("consume", topic).stdout == "v\n"


def test_a_record_that_is_too_large_is_refused_in_the_brokers_words(
    at_broker: AtBroker, topic: str
) -> None:
    at_broker("topic", "create", topic, "-c", "max.message.bytes=1000")
    ran = at_broker("produce", topic, text="x" * 2_000)
    assert ran.exit_code == 1
    assert f"error: records for {topic}-0" in ran.stderr
    assert at_broker("consume", topic).stdout == ""


def test_a_partition_that_is_not_there_is_not_found(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic)
    ran = at_broker("produce", topic, "--partition", "1", text="x\n")
    assert ran.exit_code == 4
    assert f"topic {topic} has no partition 1" in ran.stderr


def test_typed_lines_are_sent_while_the_input_is_still_open(
    broker: Broker, at_broker: AtBroker, topic: str
) -> None:
    command = [sys.executable, "-m", "ottla.cli", "produce", topic]
    with child([*command, *at(broker.bootstrap_servers)], stdin=subprocess.PIPE) as typing:
        assert typing.stdin is not None
        typing.stdin.write("typed\n")
        typing.stdin.flush()
        at_broker("topic", "create", topic, "--if-not-exists")
        followed = at_broker("consume", topic, "-f", "--from", "beginning", "--max", "1")
        assert followed.stdout == "typed\n"
        _, stderr = typing.communicate("", timeout=60)
    assert typing.returncode == 0
    assert stderr == f"sent 1 record to {topic}\n"


def test_timestamps_are_those_of_the_moment(at_broker: AtBroker, topic: str) -> None:
    at_broker("produce", topic, text="x\n")
    (row,) = [
        json.loads(line) for line in at_broker("consume", topic, "-o", "jsonl").stdout.splitlines()
    ]
    later = at_broker("consume", topic, "--from", "2199-01-01")
    assert row["timestamp"] > 1_700_000_000_000
    assert later.stdout == ""
