"""The README, followed word by word in a fresh clone: what it says happens.

Every command of its console blocks is run, in order, and what the README shows is what is printed.
Three things differ, and nothing else: the port, which may be taken here, so that the broker gets
another one by its settings (and 127.0.0.1:9092 in a command is that one); `make test`, which would
run this test again, so that it is only looked at with `make -n`; and `kcat`, where it is missing.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.free_port import free_port
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text()
README_PORT = "127.0.0.1:9092"
# A machine that does other things may take its time; pip and uv fill caches of their own.
TIMEOUT_S = 1_500

pytestmark = pytest.mark.timeout(TIMEOUT_S)


class Shown(NamedTuple):
    """A command as the README has it, and what the README shows below it."""

    command: str
    output: str


def shown_commands() -> list[Shown]:
    found: list[Shown] = []
    for block in re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Shown(re.sub(r"\s{2,}#.*$", "", line[2:]), ""))
            else:
                found[-1] = Shown(found[-1].command, f"{found[-1].output}{line}\n")
    return found


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git has or would add, as it is now, and nothing that was made from it."""
    directory = tmp_path_factory.mktemp("fresh") / "ottla"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    return directory


class System:
    """`make up` in a clone: all that it prints, line by line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._is_over = False
        self._changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def wait_for(self, start: str) -> str:
        """The first line that begins so."""
        with self._changed:
            while True:
                for line in self.lines:
                    if line.startswith(start):
                        return line
                assert not self._is_over, "\n".join(self.lines)
                assert self._changed.wait(TIMEOUT_S), self.lines

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


@contextmanager
def made_up(clone: Path, environment: dict[str, str]) -> Iterator[System]:
    with subprocess.Popen(
        ["make", "up"],
        cwd=clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        system = System(process)
        try:
            yield system
        finally:
            # All that it started is in its group, Spark's installation too.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            system.reader.join()


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """A user's: nothing of the `make` and the virtual environment that these tests run in."""
    of_tests = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "VIRTUAL_ENV", "PYTHONPATH", "KAFKA_JARS")
    plain = {name: value for name, value in os.environ.items() if name not in of_tests}
    port = free_port()
    return plain | {
        "PYTHON": sys._base_executable,  # type: ignore[attr-defined]
        "OTTLA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "OTTLA_METRICS_PORT": "0",
        "OTTLA_DISK_RESERVE_BYTES": "0",
        "OTTLA_BOOTSTRAP": f"127.0.0.1:{port}",
    }


def follow(shown: Shown, clone: Path, environment: dict[str, str]) -> None:
    command = shown.command.replace(README_PORT, environment["OTTLA_BOOTSTRAP"])
    if command.startswith("kcat ") and shutil.which("kcat") is None:
        return
    ran = subprocess.run(
        ["bash", "-c", command],
        cwd=clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, f"{command}: {ran.stderr}"
    assert shown.output in ("", ran.stdout), command


def test_the_readme_is_followed_word_by_word(clone: Path, environment: dict[str, str]) -> None:
    first, second, *others = shown_commands()
    assert (first.command, second.command) == ("make up", "make test")
    planned = subprocess.run(
        ["make", "-n", "test"], cwd=clone, env=environment, capture_output=True, text=True
    )
    assert planned.returncode == 0, planned.stderr
    assert "pytest" in planned.stdout

    with made_up(clone, environment) as system:
        system.wait_for("Wipe")
        steps = [line for line in system.lines if line.startswith("[")]
        assert [line[:5] for line in steps] == ["[1/3]", "[2/3]", "[3/3]"]
        assert all(re.search(r" … [0-9.]+ s", line) for line in steps)
        assert system.lines[0] == steps[0]
        assert system.wait_for("Kafka").endswith(environment["OTTLA_BOOTSTRAP"])
        # "`make up` ends with commands to try": the next commands of the README.
        tried = system.wait_for("Try").split(None, 1)[1]
        assert tried.startswith(others[0].command)
        system.wait_for("Spark is ready")
        orders = "seq 20 | .venv/bin/ottla produce orders"
        follow(Shown(orders, ""), clone, environment)
        for shown in others:
            follow(shown, clone, environment)
        assert_arrow_block(clone, environment)
        follow(Shown(system.wait_for("Stop").partition(", or ")[2], ""), clone, environment)
        assert system.process.wait(TIMEOUT_S) == 0

    with made_up(clone, environment) as again:
        # A second time it starts at once: nothing is set up.
        again.wait_for("Wipe")
        assert again.lines[0].startswith(" 1  settings read")
        follow(Shown(".venv/bin/ottla down --wipe --yes", ""), clone, environment)


def assert_arrow_block(clone: Path, environment: dict[str, str]) -> None:
    """The first lines of the README's block about tables, up to where Spark is."""
    (block,) = re.findall(r"^```python\n(import ottla\n.*?)\n\nservers", README, re.M | re.DOTALL)
    code = block.replace(README_PORT, environment["OTTLA_BOOTSTRAP"])
    (clone / "block.py").write_text(f"{code}\nassert orders.num_rows == 20, orders\n")
    follow(Shown(".venv/bin/python block.py", ""), clone, environment)


def test_every_console_block_of_the_readme_is_read() -> None:
    commands = [shown.command for shown in shown_commands()]
    assert len(commands) == README.count("\n$ ")
    assert Shown(".venv/bin/ottla consume greetings", "hello\n") in shown_commands()
