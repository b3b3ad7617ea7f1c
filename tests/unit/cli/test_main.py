"""The command line as a whole: its start, and its end after a failure."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from tests.support.child_processes import child
from tests.support.cli import run_command
from tests.support.cli.run_command import write_directory

# Modules that only a running command may need.
HEAVY = (
    "rich",
    "cramjam",
    "crc32c",
    "asyncio",
    "ottla.storage",
    "ottla.protocol",
    "ottla.metadata",
)


def in_a_process(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["log", "--help"], ["log", "dump", "--help"]])
def test_help_imports_nothing_that_only_a_command_needs(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from ottla.cli.app import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit as end: assert not end.code\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    imported = finished.stderr.split()
    assert "Usage" in finished.stdout
    assert "ottla.cli.log.commands" in imported
    assert [name for name in imported if name.startswith(HEAVY)] == []


def test_the_version_is_the_packages() -> None:
    ran = run_command.ottla("--version")
    assert (ran.exit_code, ran.stdout) == (0, f"ottla {ottla.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["log", "dump"],
        ["log", "dump", "--no-such-option", "x"],
        ["log", "dump", "--from", "-1", "x"],
        ["log", "dump", "-o", "xml", "x"],
        ["no-such-command"],
    ],
)
def test_a_call_that_makes_no_sense_is_a_usage_error(arguments: list[str]) -> None:
    ran = run_command.ottla(*arguments)
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert "Usage" in ran.stderr


def test_an_error_has_a_message_and_advice_and_no_traceback(tmp_path: Path) -> None:
    finished = in_a_process("log", "dump", str(tmp_path / "nowhere"))
    assert finished.returncode == 4
    assert finished.stdout == ""
    assert finished.stderr.splitlines() == [
        f"error: {tmp_path}/nowhere does not exist",
        "  try: name a segment file, a partition directory or a log directory",
    ]


def test_debug_shows_the_traceback_and_ends_with_the_same_code(tmp_path: Path) -> None:
    finished = in_a_process("--debug", "log", "dump", str(tmp_path / "nowhere"))
    assert finished.returncode == 4
    assert "Traceback" in finished.stderr
    assert "error: " in finished.stderr


def test_a_closed_output_pipe_is_not_an_error(tmp_path: Path) -> None:
    directory = write_directory(tmp_path / "logs")
    command = f"{sys.executable} -m ottla.cli log dump --records -o jsonl {directory} | head -n 1"
    finished = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert finished.stdout.count("\n") == 1
    assert "Traceback" not in finished.stderr


def test_an_interrupted_command_ends_with_130(tmp_path: Path) -> None:
    fifo = tmp_path / "00000000000000000000.log"
    os.mkfifo(fifo)
    # Opening a pipe that nobody writes to waits for ever: time enough for a signal.
    with child([sys.executable, "-c", WAITING, str(fifo)]) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "running\n"
        waiting.send_signal(signal.SIGINT)
        _, stderr = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert "Traceback" not in stderr


WAITING = """
import sys
from ottla.cli import main
from ottla.cli.log import dump
files_of = dump._files_of
def announced(*arguments):
    print("running", flush=True)
    yield from files_of(*arguments)
dump._files_of = announced
sys.argv = ["ottla", "log", "dump", sys.argv[1]]
main.main()
"""
