"""Each command imports only its own dependencies, so that it starts quickly."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.broker import Broker
from tests.support.cli.run_command import at, write_directory

# No command needs these to list, describe or look something up.
NEVER = (
    "rich",
    "pydantic",
    "pyarrow",
    "pyspark",
    "structlog",
    "starlette",
    "prometheus_client",
    "uvloop",
)
# Not needed by commands that connect to a broker.
BROKERS = ("ottla.broker", "ottla.storage", "ottla.metadata", "ottla.replication")
# Not needed by commands that connect to no broker.
SPEAKING = ("asyncio", "ssl", "ottla.client")

SCRIPT = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.__stderr__))
from ottla.cli.main import main
sys.argv = ["ottla", *sys.argv[1:]]
main()
"""


def imported_by(*arguments: str, stdin: str = "") -> set[str]:
    """The modules that a command has when it ends; it must end well."""
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(finished.stderr.splitlines()[-1].split())
    assert "ottla.cli.main" in modules
    return modules


def among(modules: set[str], roots: tuple[str, ...]) -> list[str]:
    """Those that are one of `roots`, or inside it."""
    return sorted(name for name in modules if any(f"{name}.".startswith(f"{r}.") for r in roots))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["topic", "--help"],
        ["topic", "list", "--help"],
        ["txn", "--help"],
        ["log", "--help"],
    ],
)
def test_help_needs_no_command(arguments: list[str]) -> None:
    codecs = ("ottla.protocol", "crc32c", "cramjam")
    assert among(imported_by(*arguments), (*NEVER, *BROKERS, *SPEAKING, *codecs)) == []


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "yaml", "name"])
def test_a_listing_needs_the_client_and_not_the_broker(broker: Broker, form: str) -> None:
    modules = imported_by("topic", "list", "-o", form, *at(broker.bootstrap_servers))
    modules |= imported_by("txn", "list", "-o", form, *at(broker.bootstrap_servers))
    assert "ottla.client.admin.cluster" in modules
    assert among(modules, (*NEVER, *BROKERS, "crc32c", "cramjam")) == []


def test_a_listing_imports_no_message_that_it_does_not_send(broker: Broker) -> None:
    modules = imported_by("topic", "list", *at(broker.bootstrap_servers))
    messages = among(modules, ("ottla.protocol.messages",))
    assert "ottla.protocol.messages.metadata" in messages
    assert "ottla.protocol.messages.produce" not in messages
    assert "ottla.protocol.messages.fetch" not in messages


def test_producing_and_consuming_need_not_the_broker(broker: Broker, topic: str) -> None:
    where = at(broker.bootstrap_servers)
    modules = imported_by("produce", topic, *where, stdin="hello\n")
    modules |= imported_by("consume", topic, *where)
    assert among(modules, (*NEVER, *BROKERS)) == []


def test_the_logs_tools_speak_with_nobody(tmp_path: Path) -> None:
    directory = write_directory(tmp_path / "logs")
    for command in ("dump", "verify"):
        modules = imported_by("log", command, str(directory))
        assert among(modules, (*NEVER, *SPEAKING, "ottla.broker", "ottla.replication")) == []


def test_a_broker_starts_without_typer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    unusable = str(tmp_path / "file" / "data")
    finished = subprocess.run(
        [sys.executable, "-c", SCRIPT, "serve", "--data", unusable, "--port", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1
    modules = set(finished.stderr.splitlines()[-1].split())
    assert "ottla.broker.node.node" in modules
    heavy = (
        "typer",
        "rich",
        "pydantic",
        "structlog",
        "starlette",
        "pyarrow",
        "kazoo",
        "ottla.client.admin.cluster",
    )
    assert among(modules, heavy) == []
