"""`ottla group …` against a broker, with groups that only have offsets."""

import json

import pytest

from tests.support.cli.run_command import Ran, ottla
from tests.unit.cli.conftest import AtBroker


@pytest.fixture
def group(at_broker: AtBroker, topic: str) -> str:
    """A group that has read nothing of its topic, of which the second partition has records."""
    at_broker("topic", "create", topic, "-p", "2")
    at_broker("produce", topic, "--partition", "1", text="a\nb\nc\nd\n")
    name = f"group-of-{topic}"
    made = at_broker("group", "reset", name, "--to", "earliest", "-t", topic, "--yes")
    assert made.exit_code == 0, made.stderr
    return name


def planned(ran: Ran) -> dict[str, tuple[int | None, int]]:
    return {row["name"]: (row["committed"], row["will_be"]) for row in ran.rows}


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "yaml", "name"])
def test_every_form_of_a_listing_has_the_group(at_broker: AtBroker, group: str, form: str) -> None:
    listed = at_broker("group", "list", "-o", form)
    assert listed.exit_code == 0
    assert group in listed.stdout
    if form == "name":
        assert group in listed.stdout.splitlines()
    if form == "json":
        (row,) = [row for row in json.loads(listed.stdout) if row["name"] == group]
        assert (row["type"], row["state"]) == ("classic", "Empty")


def test_a_listing_can_be_limited_to_states(at_broker: AtBroker, group: str) -> None:
    assert group in at_broker("group", "list", "--state", "empty", "-o", "name").stdout
    assert group not in at_broker("group", "list", "--state", "Stable", "-o", "name").stdout


def test_a_description_says_how_far_behind_a_group_is(
    at_broker: AtBroker, group: str, topic: str
) -> None:
    at_broker("group", "reset", group, "--shift", "1", "--yes")
    ran = at_broker("group", "describe", group, "-o", "jsonl")
    assert ran.exit_code == 0
    (row,) = ran.rows_of("group")
    assert (row["state"], row["members"], row["lag"]) == ("Empty", 0, 3)
    assert 0 <= row["lag_seconds"] < 600
    first, second = ran.rows_of("partition")
    assert (first["partition"], first["committed"], first["lag"]) == (f"{topic}-0", 0, 0)
    assert (second["committed"], second["end_offset"], second["lag"]) == (1, 4, 3)
    assert second["owner"] is None


def test_a_reset_shows_its_plan_and_acts_with_yes(
    at_broker: AtBroker, group: str, topic: str
) -> None:
    plan = at_broker("group", "reset", group, "--to", "latest", "-o", "jsonl")
    assert planned(plan) == {f"{topic}-0": (0, 0), f"{topic}-1": (0, 4)}
    assert plan.stderr == "nothing was changed: `--yes` sets 1 offset\n"
    again = at_broker("group", "reset", group, "--to", "end", "-o", "jsonl", "--yes")
    assert again.rows == plan.rows
    assert again.stderr == f"set 1 offset of group {group}, verified by reading them back\n"
    done = at_broker("group", "reset", group, "--to", "end", "-o", "jsonl", "--yes")
    assert planned(done) == {f"{topic}-0": (0, 0), f"{topic}-1": (4, 4)}
    assert done.stderr == "there is nothing to change\n"


@pytest.mark.parametrize(
    ("goal", "offset"),
    [
        (("--to", "3"), 3),
        (("--to", "99"), 4),
        (("--to", "1h"), 0),
        (("--to", "2100-01-01"), 4),
        (("--shift", "2"), 2),
        (("--shift", "-5"), 0),
        (("--shift", "50"), 4),
    ],
)
def test_a_goal_is_kept_within_the_partition(
    at_broker: AtBroker, group: str, topic: str, goal: tuple[str, str], offset: int
) -> None:
    ran = at_broker("group", "reset", group, *goal, "-t", topic, "--partition", "1", "-o", "jsonl")
    assert planned(ran) == {f"{topic}-1": (0, offset)}


def test_a_group_that_is_deleted_is_gone(at_broker: AtBroker, group: str) -> None:
    plan = at_broker("group", "delete", group, "-o", "jsonl")
    assert plan.rows == [
        {"kind": "group", "name": group, "state": "Empty", "members": 0, "offsets": 2}
    ]
    assert plan.stderr == "nothing was changed: `--yes` deletes 1 group\n"
    done = at_broker("group", "delete", group, "--yes")
    assert (done.exit_code, done.stderr) == (0, f"deleted group {group}\n")
    assert group not in at_broker("group", "list", "-o", "name").stdout


def test_offsets_of_one_topic_can_be_deleted(at_broker: AtBroker, group: str, topic: str) -> None:
    other = f"{topic}-other"
    at_broker("topic", "create", other)
    at_broker("group", "reset", group, "--to", "earliest", "-t", other, "--yes")
    done = at_broker("group", "delete", group, "-t", topic, "--yes")
    assert done.stderr == f"deleted 2 offsets of group {group}\n"
    left = at_broker("group", "describe", group, "-o", "jsonl").rows_of("partition")
    assert [row["partition"] for row in left] == [f"{other}-0"]


@pytest.mark.parametrize("command", [["describe"], ["delete", "--yes"], ["reset", "--to=latest"]])
def test_a_group_that_does_not_exist_is_not_found(at_broker: AtBroker, command: list[str]) -> None:
    ran = at_broker("group", command[0], "nobody", *command[1:])
    assert (ran.exit_code, ran.stdout) == (4, "")
    assert ran.stderr.splitlines() == [
        "error: no group 'nobody'",
        "  try: `ottla group list` shows the existing ones",
    ]


def test_a_missing_offset_cannot_be_shifted(at_broker: AtBroker, topic: str) -> None:
    at_broker("topic", "create", topic)
    ran = at_broker("group", "reset", "new", "-t", topic, "--shift", "1", "--yes")
    assert ran.exit_code == 1
    assert f"the group has no offset of {topic}-0" in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--to", "latest", "--shift", "1"),
        ("--to", "sometime"),
        ("--shift", "far"),
    ],
)
def test_a_reset_that_makes_no_sense_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert ottla("group", "reset", "g", *arguments).exit_code == 2


def test_a_partition_alone_is_a_usage_error(at_broker: AtBroker) -> None:
    ran = at_broker("group", "reset", "g", "--to", "latest", "--partition", "1")
    assert (ran.exit_code, ran.stderr) == (2, "error: --partition needs one --topic\n")


def test_a_broker_that_is_away_is_unreachable() -> None:
    assert ottla("group", "list", "-b", "127.0.0.1:1", "--timeout", "2").exit_code == 3


def test_partition_and_group_exclude_each_other() -> None:
    ran = ottla("consume", "t", "--group", "g", "--partition", "0")
    assert ran.exit_code == 2
    assert "--partition and --group exclude each other" in ran.stderr
