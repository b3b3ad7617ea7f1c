"""The contract of the command line with scripts: streams, exit codes, one line, locks."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.free_port import free_port

OTTLA = [sys.executable, "-m", "ottla.cli"]
READY = re.compile(r"ready kafka=(\S+):([0-9]+) metrics=\S+:[0-9]+ pid=([0-9]+)\n")
# A machine that runs tests may have a disk that is nearly full.
QUIET = ("--metrics-port", "0", "--set", "ottla.disk.reserve.bytes=0")
TIMEOUT_S = 240


def run(*arguments: str, text: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*OTTLA, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=os.environ | environment,
        check=False,
    )


def at(address: str) -> tuple[str, ...]:
    """Where a command finds its broker, for which it waits as long as it takes."""
    return ("-b", address, "--timeout", str(TIMEOUT_S // 2))


@contextmanager
def started(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [*OTTLA, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


@contextmanager
def served(data: Path, port: int = 0) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    with started("serve", "--data", str(data), "--port", str(port), *QUIET) as child:
        assert child.stdout is not None
        ready = READY.fullmatch(child.stdout.readline())
        assert ready is not None
        assert int(ready[3]) == child.pid
        assert int(ready[2]) == port or port == 0
        yield child, f"{ready[1]}:{ready[2]}"


def test_a_broker_serves_at_the_port_that_it_names(tmp_path: Path) -> None:
    for port in (0, free_port()):
        with served(tmp_path / "data", port) as (_, address):
            host, _, named = address.rpartition(":")
            assert int(named) == port or port == 0
            with socket.create_connection((host, int(named)), timeout=TIMEOUT_S):
                pass


@pytest.mark.parametrize("flag", [("--port", "0"), ("--host", "127.0.0.1")])
def test_listeners_beside_port_or_host_is_a_usage_error(
    tmp_path: Path, flag: tuple[str, str]
) -> None:
    ran = run(
        *("serve", "--data", str(tmp_path / "d"), *flag, *QUIET),
        OTTLA_LISTENERS="PLAINTEXT://127.0.0.1:0",
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {flag[0]} and listeners")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("command", ["serve", "up", "down"])
def test_an_empty_name_of_a_directory_is_a_usage_error(command: str) -> None:
    ran = run(command, "--data", "")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: --data is empty\n"


def test_the_logs_tools_refuse_a_directory_that_a_broker_works_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data) as (child, address):
        assert run("produce", "kept", *at(address), text="a\n").returncode == 0
        for command in (["verify", str(data)], ["dump", str(data / "kept-0")]):
            ran = run("log", *command)
            assert (ran.returncode, ran.stdout) == (1, "")
            assert f"error: {data} is in use" in ran.stderr
        child.send_signal(signal.SIGTERM)
        assert child.wait(TIMEOUT_S) == 0
    assert run("log", "verify", str(data)).returncode == 0


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "yaml", "name"])
def test_the_logs_tools_list_in_every_form(tmp_path: Path, form: str) -> None:
    data = tmp_path / "data"
    with served(data) as (child, address):
        assert run("produce", "kept", *at(address), text="a\nb\n").returncode == 0
        child.send_signal(signal.SIGTERM)
        assert child.wait(TIMEOUT_S) == 0
    log = data / "kept-0" / f"{0:020}.log"
    dumped = run("log", "dump", str(log), "--records", "-o", form)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    assert str(log) in dumped.stdout
    if form == "name":
        assert dumped.stdout == f"{log}\n"
    content = bytearray(log.read_bytes())
    content[-1] ^= 0xFF
    log.write_bytes(content)
    verified = run("log", "verify", str(data), "-o", form)
    assert verified.returncode == 6
    assert str(log) in verified.stdout
    assert "1 damage" in verified.stderr


def test_an_interrupted_consumer_ends_with_130_and_without_a_traceback(servers: str) -> None:
    assert run("produce", "followed", *at(servers), text="first\n").returncode == 0
    follow = ("consume", "followed", "-f", "--from", "beginning", *at(servers))
    with started(*follow) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "first\n"
        child.send_signal(signal.SIGINT)
        stdout, stderr = child.communicate(timeout=TIMEOUT_S)
    assert (child.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr


def test_an_interrupted_producer_keeps_what_it_sent_and_ends_with_130(servers: str) -> None:
    with started("produce", "typed", *at(servers)) as child:
        assert child.stdin is not None
        child.stdin.write("kept\n")
        child.stdin.flush()
        follow = ("consume", "typed", "-f", "--from", "beginning", "-n", "1", *at(servers))
        while (seen := run(*follow)).returncode == 4:
            assert child.poll() is None
        assert seen.stdout == "kept\n"
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate(timeout=TIMEOUT_S)
    assert child.returncode == 130
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (("topic", "list", "-b", "127.0.0.1:1"), 3),
        (("produce", "t", "-b", "127.0.0.1:1"), 3),
        (("consume", "t", "-b", "127.0.0.1:1"), 3),
        (("txn", "find-hanging", "-b", "127.0.0.1:1"), 3),
        (("txn", "abort", "orders:0"), 2),
        (("log", "verify", "/no/such/directory"), 4),
        (("doctor", "-b", "127.0.0.1:1"), 6),
        (("topic", "delete"), 2),
        ((), 2),
    ],
)
def test_the_exit_code_says_how_a_command_ended(arguments: tuple[str, ...], exit_code: int) -> None:
    ran = run(*arguments)
    assert ran.returncode == exit_code
    assert "Traceback" not in ran.stderr


def test_a_deletion_plan_is_on_stdout_and_its_notice_on_stderr(servers: str) -> None:
    assert run("topic", "create", "doomed", *at(servers)).returncode == 0
    plan = run("topic", "delete", "doomed", "-o", "name", *at(servers))
    assert (plan.returncode, plan.stdout) == (0, "doomed\n")
    assert plan.stderr == "nothing was changed: `--yes` deletes 1 topic\n"
    assert "doomed" in run("topic", "list", "-o", "name", *at(servers)).stdout.splitlines()
    assert run("topic", "delete", "doomed", "--yes", *at(servers)).returncode == 0
    assert "doomed" not in run("topic", "list", "-o", "name", *at(servers)).stdout.splitlines()
