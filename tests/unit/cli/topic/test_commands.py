"""`ottla topic …` against a broker."""

import json

import pytest

from tests.support.cli.run_command import ottla
from tests.unit.cli.conftest import AtBroker


def test_a_topic_that_was_created_is_listed(at_broker: AtBroker, topic: str) -> None:
    created = at_broker("topic", "create", topic, "--partitions", "3")
    assert (created.exit_code, created.stdout) == (0, "")
    assert created.stderr == f"created topic {topic}\n"
    listed = at_broker("topic", "list", "-o", "jsonl")
    (row,) = [row for row in listed.rows if row["name"] == topic]
    assert len(row.pop("topic_id")) == 22
    assert row == {
        "kind": "topic",
        "name": topic,
        "partitions": 3,
        "replication_factor": 1,
        "is_internal": False,
    }


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "yaml", "name"])
def test_every_form_of_a_listing_has_the_name(at_broker: AtBroker, topic: str, form: str) -> None:
    at_broker("topic", "create", topic)
    listed = at_broker("topic", "list", "-o", form)
    assert listed.exit_code == 0
    assert topic in listed.stdout
    if form == "name":
        assert topic in listed.stdout.splitlines()
    if form == "json":
        assert topic in [row["name"] for row in json.loads(listed.stdout)]


def test_a_description_has_partitions_offsets_sizes_and_settings(
    at_broker: AtBroker, topic: str
) -> None:
    at_broker("topic", "create", topic, "-p", "2", "-c", "retention.ms=5000000")
    at_broker("produce", topic, "--partition", "1", text="a\nb\n")
    described = at_broker("topic", "describe", topic, "-o", "jsonl")
    assert described.exit_code == 0
    assert [row["name"] for row in described.rows_of("topic")] == [topic]
    empty, filled = described.rows_of("partition")
    assert (empty["first_offset"], empty["end_offset"]) == (0, 0)
    assert (filled["first_offset"], filled["end_offset"]) == (0, 2)
    assert (filled["leader"], filled["replicas"], filled["isr"]) == (1, "1", "1")
    assert filled["bytes"] > 0
    assert described.rows_of("config") == [
        {"kind": "config", "topic": topic, "config": "retention.ms", "value": "5000000"}
    ]


def test_a_topic_that_exists_is_an_error_unless_it_may(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic)
    again = at_broker("topic", "create", topic)
    assert again.exit_code == 1
    assert again.stderr.startswith(f"error: topic {topic}\n  why: ")
    may = at_broker("topic", "create", topic, "--if-not-exists")
    assert (may.exit_code, may.stderr) == (0, f"topic {topic} exists already\n")


def test_one_bad_topic_does_not_keep_the_others_from_being_made(
    at_broker: AtBroker, topic: str
) -> None:
    ran = at_broker("topic", "create", topic, "not/allowed")
    assert ran.exit_code == 1
    assert f"created topic {topic}" in ran.stderr
    assert "error: topic not/allowed" in ran.stderr


@pytest.mark.parametrize(
    ("setting", "exit_code"), [("retention.ms=soon", 1), ("no.such.setting=1", 4)]
)
def test_a_bad_setting_is_refused_in_the_brokers_words(
    at_broker: AtBroker, topic: str, setting: str, exit_code: int
) -> None:
    ran = at_broker("topic", "create", topic, "--config", setting)
    assert ran.exit_code == exit_code
    assert "  why: " in ran.stderr
    assert setting.partition("=")[0] in ran.stderr


@pytest.mark.parametrize("text", ["retention.ms", "=5"])
def test_a_setting_that_is_none_is_a_usage_error(topic: str, text: str) -> None:
    ran = ottla("topic", "create", topic, "--config", text)
    assert ran.exit_code == 2
    assert "is not NAME=VALUE" in ran.stderr


@pytest.mark.parametrize("command", [["describe"], ["delete", "--yes"], ["trim", "--before=end"]])
def test_a_topic_that_does_not_exist_is_not_found(at_broker: AtBroker, command: list[str]) -> None:
    ran = at_broker("topic", command[0], "nowhere", *command[1:])
    assert ran.exit_code == 4
    assert ran.stderr.splitlines() == [
        "error: no topic 'nowhere'",
        "  try: `ottla topic list` shows the existing ones",
    ]


def test_a_deletion_shows_the_plan_and_acts_with_yes(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic, "-p", "2")
    at_broker("produce", topic, text="a\nb\nc\n")
    plan = at_broker("topic", "delete", topic, "-o", "jsonl")
    assert plan.exit_code == 0
    assert plan.rows == [{"kind": "topic", "name": topic, "partitions": 2, "records_at_most": 3}]
    assert plan.stderr == "nothing was changed: `--yes` deletes 1 topic\n"
    assert at_broker("topic", "describe", topic).exit_code == 0
    done = at_broker("topic", "delete", topic, "--yes")
    assert (done.exit_code, done.stderr) == (0, f"deleted topic {topic}\n")
    assert at_broker("topic", "describe", topic).exit_code == 4


def test_a_trim_shows_the_plan_and_acts_with_yes(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic, "-p", "2")
    for partition in ("0", "1"):
        at_broker("produce", topic, "--partition", partition, text="a\nb\nc\n")
    command = ("topic", "trim", topic, "--before", "2", "--partition", "1")
    plan = at_broker(*command, "-o", "jsonl")
    assert plan.rows == [
        {
            "kind": "partition",
            "name": f"{topic}-1",
            "first_offset": 0,
            "will_begin_at": 2,
            "end_offset": 3,
            "records_at_most": 2,
        }
    ]
    assert "nothing was changed" in plan.stderr
    assert at_broker("consume", topic, "--partition", "1").stdout == "a\nb\nc\n"
    done = at_broker(*command, "--yes")
    assert (done.exit_code, done.stderr) == (0, "deleted at most 2 records of 1 partition\n")
    assert at_broker("consume", topic, "--partition", "1").stdout == "c\n"
    assert at_broker("consume", topic, "--partition", "0").stdout == "a\nb\nc\n"
    assert "nothing to delete" in at_broker(*command, "--yes").stderr


def test_a_trim_to_a_time_keeps_younger_records(at_broker: AtBroker, topic: str) -> None:
    at_broker("produce", topic, text="a\n")
    assert "nothing to delete" in at_broker("topic", "trim", topic, "--before", "1h").stderr
    future = at_broker("topic", "trim", topic, "--before", "2199-01-01T00:00Z", "--yes")
    assert "deleted at most 1 record of 1 partition" in future.stderr


def test_a_place_that_is_none_is_a_usage_error(topic: str) -> None:
    ran = ottla("topic", "trim", topic, "--before", "yesterday")
    assert ran.exit_code == 2
    assert "beginning, end, an offset, a time" in ran.stderr


def test_a_partition_that_is_not_there_is_not_found(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic)
    ran = at_broker("topic", "trim", topic, "--before", "end", "--partition", "7")
    assert ran.exit_code == 4
    assert f"topic {topic} has no partition 7" in ran.stderr


def test_a_topic_grows_with_yes_and_never_shrinks(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic, "-p", "2")
    plan = at_broker("topic", "grow", topic, "-p", "5", "-o", "jsonl")
    assert plan.rows == [{"kind": "topic", "name": topic, "partitions": 2, "will_have": 5}]
    assert "nothing was changed" in plan.stderr
    assert at_broker("topic", "grow", topic, "-p", "5", "--yes").exit_code == 0
    assert len(at_broker("topic", "describe", topic, "-o", "jsonl").rows_of("partition")) == 5
    assert at_broker("topic", "grow", topic, "-p", "3", "--yes").exit_code == 1


def test_a_broker_that_is_not_there_ends_with_3_and_advice() -> None:
    ran = ottla("topic", "list", "--bootstrap", "127.0.0.1:1")
    assert ran.exit_code == 3
    assert ran.stderr.splitlines() == [
        "error: no response from 127.0.0.1:1",
        "  why: 127.0.0.1:1: Connection refused",
        "  try: `ottla up` starts a local broker; --bootstrap HOST:PORT names another one",
    ]


def test_an_address_that_is_none_is_a_usage_error() -> None:
    ran = ottla("topic", "list", "--bootstrap", "http://somewhere")
    assert ran.exit_code == 2
    assert "host:port" in ran.stderr
