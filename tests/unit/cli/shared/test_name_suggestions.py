"""Every command that takes a name suggests a similar one if it does not exist."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from ottla.cli.app import app
from ottla.cli.broker.settings import BrokerFlags, load_settings
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.name_suggestions import no_such, with_suggestion
from ottla.client.errors import Refused, TimedOut
from ottla.errors import ErrorCode
from ottla.testing.broker import Broker
from tests.support.cli.run_command import at, ottla
from tests.support.compat.hanging_transactions import init_producer

TOPIC, GROUP, TRANSACTIONAL_ID = "orders", "billing", "till-1"
WRONG_TOPIC, WRONG_GROUP, WRONG_ID = "ordres", "biling", "til-1"
MEANT_TOPIC = f"no topic '{WRONG_TOPIC}'; did you mean '{TOPIC}'?"
MEANT_GROUP = f"no group '{WRONG_GROUP}'; did you mean '{GROUP}'?"
MEANT_ID = f"no transactional id '{WRONG_ID}'; did you mean '{TRANSACTIONAL_ID}'?"
MEANT_SETTING = "no setting 'num.partition'; did you mean 'num.partitions'?"


class Story(NamedTuple):
    """A command with one wrong name in it, its error and the end of its advice."""

    words: tuple[str, ...]
    says: str
    needs_broker: bool = True
    advice: str = "shows the existing ones"


PIPELINE = "no pipeline 'trendign'; did you mean 'trending'?"
# By command and parameter. Each has to end with exit code 4.
STORIES: Mapping[tuple[str, str], Story] = {
    ("consume", "topic"): Story(("consume", WRONG_TOPIC), MEANT_TOPIC),
    ("produce", "topic"): Story(("produce", WRONG_TOPIC), MEANT_TOPIC),
    ("sql", "query"): Story(("sql", f"select * from {WRONG_TOPIC}"), MEANT_TOPIC),
    ("topic describe", "names"): Story(("topic", "describe", TOPIC, WRONG_TOPIC), MEANT_TOPIC),
    ("topic grow", "name"): Story(("topic", "grow", WRONG_TOPIC, "-p", "9"), MEANT_TOPIC),
    ("topic delete", "names"): Story(("topic", "delete", WRONG_TOPIC), MEANT_TOPIC),
    ("topic trim", "name"): Story(("topic", "trim", WRONG_TOPIC, "--before", "end"), MEANT_TOPIC),
    ("topic replicate", "names"): Story(
        ("topic", "replicate", TOPIC, WRONG_TOPIC, "--factor", "1"), MEANT_TOPIC
    ),
    ("topic reassign", "names"): Story(("topic", "reassign", WRONG_TOPIC), MEANT_TOPIC),
    ("topic elect", "names"): Story(("topic", "elect", WRONG_TOPIC), MEANT_TOPIC),
    ("topic create", "config"): Story(
        ("topic", "create", "new", "-c", "retention.sm=1"),
        "no topic setting 'retention.sm'; did you mean 'retention.ms'?",
    ),
    ("group list", "state"): Story(
        ("group", "list", "--state", "emty"),
        "no group state 'emty'; did you mean 'Empty'?",
        advice="Assigning, Reconciling, NotReady, Unknown",
    ),
    ("group describe", "names"): Story(("group", "describe", WRONG_GROUP), MEANT_GROUP),
    ("group reset", "name"): Story(("group", "reset", WRONG_GROUP, "--to", "latest"), MEANT_GROUP),
    ("group reset", "topic"): Story(
        ("group", "reset", GROUP, "--to", "latest", "-t", WRONG_TOPIC), MEANT_TOPIC
    ),
    ("group delete", "names"): Story(("group", "delete", WRONG_GROUP), MEANT_GROUP),
    ("group delete", "topic"): Story(("group", "delete", GROUP, "-t", WRONG_TOPIC), MEANT_TOPIC),
    ("txn list", "state"): Story(
        ("txn", "list", "--state", "ongoin"),
        "no transaction state 'ongoin'; did you mean 'Ongoing'?",
        needs_broker=False,
        advice="CompleteCommit, CompleteAbort, Dead, PrepareEpochFence",
    ),
    ("txn producers", "partition"): Story(("txn", "producers", f"{WRONG_TOPIC}:0"), MEANT_TOPIC),
    ("txn find-hanging", "topic"): Story(
        ("txn", "find-hanging", "--topic", WRONG_TOPIC), MEANT_TOPIC
    ),
    ("txn describe", "names"): Story(("txn", "describe", WRONG_ID), MEANT_ID),
    ("txn abort", "id_"): Story(("txn", "abort", "--id", WRONG_ID, "--yes"), MEANT_ID),
    ("txn abort", "partition"): Story(
        ("txn", "abort", f"{WRONG_TOPIC}:0", "--start-offset", "0"), MEANT_TOPIC
    ),
    ("pipeline run", "name"): Story(("pipeline", "run", "trendign"), PIPELINE, needs_broker=False),
    ("pipeline run", "option"): Story(
        ("pipeline", "run", "trending", "--option", "minPartition=4"),
        "no option 'minPartition'; did you mean 'minPartitions'?",
        needs_broker=False,
    ),
    ("pipeline generate", "name"): Story(
        ("pipeline", "generate", "trendign"), PIPELINE, needs_broker=False
    ),
}
# Commands without `--timeout` or with their own process, which have their own tests.
TOLD_ELSEWHERE = {
    ("pipeline run", "topic"),
    ("cluster promote", "set_"),
    ("cluster promote", "config"),
    ("serve", "set_"),
    ("serve", "config"),
    ("up", "set_"),
    ("up", "config"),
}
# Parameters that name nothing that has to exist, with their meaning.
NO_NAMES = {
    ("consume", "group"): "made if it is missing",
    ("consume", "key_separator"): "any text",
    ("consume", "start"): "a place",
    ("doctor", "data"): "a directory",
    ("doctor", "health"): "addresses",
    ("down", "data"): "a directory",
    ("group reset", "to"): "a place",
    ("log adopt", "data"): "a directory",
    ("log adopt", "source"): "a directory",
    ("log dump", "paths"): "a path",
    ("log verify", "path"): "a path",
    ("pipeline generate", "topic"): "made if it is missing",
    ("pipeline pack", "path"): "a new file",
    ("pipeline run", "archive"): "a file",
    ("pipeline run", "conf"): "Spark's own settings",
    ("pipeline run", "master"): "an address",
    ("pipeline run", "to"): "a folder",
    ("produce", "header"): "any text",
    ("produce", "key_separator"): "any text",
    ("cluster promote", "data"): "a directory",
    ("cluster promote", "zookeeper"): "an address",
    ("serve", "data"): "a directory",
    ("serve", "host"): "an address",
    ("serve", "zookeeper"): "an address",
    ("sql", "conf"): "Spark's own settings",
    ("sql", "end"): "a place",
    ("sql", "start"): "a place",
    ("topic create", "names"): "new names",
    ("topic reassign", "brokers"): "numbers",
    ("topic reassign", "plan"): "a file",
    ("topic trim", "before"): "a place",
    ("txn find-hanging", "older_than"): "a duration",
    ("txn list", "older_than"): "a duration",
    ("txn list", "pattern"): "a regular expression",
    ("up", "data"): "a directory",
    ("up", "host"): "an address",
}
EVERYWHERE = {"bootstrap", "help"}
# Typer itself reports the allowed values of these.
CLOSED_TYPES = {"boolean", "int", "int range", "float", "float range", "choice"}


def commands(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, object]]:
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def texts_of_all_commands() -> set[tuple[str, str]]:
    """Every parameter of every command that takes a text of the user's own."""
    return {
        (path, parameter.name)
        for path, command in commands(typer.main.get_command(app))
        for parameter in command.params  # type: ignore[attr-defined]
        if parameter.type.name not in CLOSED_TYPES and parameter.name not in EVERYWHERE
    }


def test_no_command_takes_a_name_without_saying_which_was_meant() -> None:
    """A new command or option has to be listed above."""
    told = STORIES.keys() | TOLD_ELSEWHERE
    assert told.isdisjoint(NO_NAMES)
    assert texts_of_all_commands() == told | NO_NAMES.keys()


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A cluster with a topic, a group and a transactional id, which makes no topic by itself."""
    with Broker({"auto.create.topics.enable": "false"}) as broker:
        servers = broker.bootstrap_servers
        assert ottla("topic", "create", TOPIC, "payments", *at(servers)).exit_code == 0
        made = ottla("group", "reset", GROUP, "--to", "0", "-t", TOPIC, "--yes", *at(servers))
        assert made.exit_code == 0, made.stderr
        init_producer(servers, TRANSACTIONAL_ID)
        yield servers


@pytest.mark.parametrize("story", STORIES.values(), ids=[" ".join(key) for key in STORIES])
def test_a_wrong_name_brings_the_nearest_one(story: Story, bootstrap: str) -> None:
    ran = ottla(*story.words, *(at(bootstrap) if story.needs_broker else ()))
    assert ran.stderr.splitlines()[0] == f"error: {story.says}"
    assert ran.exit_code == ExitCode.NOT_FOUND
    assert ran.stderr.splitlines()[-1].endswith(story.advice)
    assert ran.stdout == ""


def test_a_group_that_shares_a_topic_says_which_topic_was_meant(bootstrap: str) -> None:
    ran = ottla("consume", WRONG_TOPIC, "--group", "new", *at(bootstrap))
    assert (ran.exit_code, ran.stderr.splitlines()[0]) == (4, f"error: {MEANT_TOPIC}")


def test_a_pipeline_says_which_topic_was_meant_before_spark_starts(
    bootstrap: str, tmp_path: Path
) -> None:
    words = ("pipeline", "run", "trending", "--to", str(tmp_path), "--topic", WRONG_TOPIC)
    ran = ottla(*words, "--bootstrap", bootstrap)
    assert (ran.exit_code, ran.stderr.splitlines()[0]) == (4, f"error: {MEANT_TOPIC}")


def test_a_broker_says_which_setting_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "ottla.toml"
    file.write_text('"num.partition" = 3\n')
    sources: list[tuple[BrokerFlags, dict[str, str], str]] = [
        (BrokerFlags(sets=["num.partition=3"]), {}, f"--set: {MEANT_SETTING}"),
        (BrokerFlags(config=str(file)), {}, f"config file: {MEANT_SETTING}"),
        (BrokerFlags(), {"OTTLA_NUM_PARTITION": "3"}, "did you mean 'OTTLA_NUM_PARTITIONS'?"),
    ]
    for flags, environment, words in sources:
        with pytest.raises(Failure) as failed:
            load_settings(flags, environment)
        assert failed.value.exit_code == ExitCode.NOT_FOUND
        assert words in failed.value.what


def test_a_name_like_no_other_is_only_said_to_be_missing() -> None:
    failure = no_such("topic", "zzz", ["orders"], "`ottla topic list`")
    assert failure.lines == [
        "error: no topic 'zzz'",
        "  try: `ottla topic list` shows the existing ones",
    ]


class Deaf:
    """A cluster that refuses one question and answers no other."""

    async def retrying(self, _: Callable[[], object]) -> object:
        raise TimedOut("no answer")


def test_a_missing_name_is_reported_even_without_a_list_of_names() -> None:
    for code, what in (
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic a"),
        (ErrorCode.GROUP_ID_NOT_FOUND, "group a"),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "transactional id a"),
    ):
        told = asyncio.run(with_suggestion(Refused(code, what), Deaf()))  # type: ignore[arg-type]
        assert isinstance(told, Failure)
        assert told.what == f"no {what.removesuffix(' a')} 'a'"


def test_a_partition_that_is_missing_is_not_taken_for_a_topic() -> None:
    refused = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "partition orders-7")
    assert asyncio.run(with_suggestion(refused, Deaf())) is refused  # type: ignore[arg-type]
