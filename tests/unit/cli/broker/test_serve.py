"""`ottla serve`, `up` and `down`: a broker process from start to stop."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.cli.broker import down, proc_table, serve, up, wipe
from ottla.cli.broker.process import BrokerInvocation, BrokerMode, run_invocation
from ottla.cli.broker.settings import BrokerFlags, load_settings
from ottla.cli.broker.start_failure import start_failure
from ottla.cli.shared.failure import Failure
from ottla.seams.files import RealFiles
from ottla.settings.development import DEVELOPMENT
from ottla.settings.table.groups import GROUP_INITIAL_REBALANCE_DELAY_MS
from ottla.settings.table.node import LISTENERS, LOG_DIRS, METRICS_PORT, NODE_ID
from ottla.settings.table.replicas import NUM_PARTITIONS
from tests.support.cli.run_command import at, contents, ottla

READY = re.compile(r"ready kafka=(127\.0\.0\.1:[0-9]+) metrics=(127\.0\.0\.1:[0-9]+) pid=([0-9]+)")
WAIT_S = 120
FREE_PORTS = ("--port", "0", "--metrics-port", "0")
# A machine that runs tests may have a disk that is nearly full.
NO_RESERVE = ("--set", "ottla.disk.reserve.bytes=0")
# A broker's start and its memory must not pay for these.
NOT_A_BROKERS = (
    "typer",
    "rich",
    "pydantic",
    "structlog",
    "starlette",
    "pyarrow",
    "pyspark",
    "kazoo",
)


class Served:
    """`ottla serve` in a process."""

    def __init__(self, child: "subprocess.Popen[str]", data: Path) -> None:
        self.child = child
        self.data = data
        assert child.stdout is not None
        self.ready_line = child.stdout.readline()
        found = READY.fullmatch(self.ready_line.strip())
        assert found, f"{self.ready_line!r}: {child.communicate(timeout=WAIT_S)}"
        self.kafka, self.metrics, self.pid = found[1], found[2], int(found[3])

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """The exit code, and the output after the ready line."""
        self.child.send_signal(number)
        stdout, stderr = self.child.communicate(timeout=WAIT_S)
        return self.child.returncode, stdout, stderr


@contextmanager
def serving(data: Path, *options: str, **environment: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(data)]
    with subprocess.Popen(
        [*command, *FREE_PORTS, *NO_RESERVE, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    ) as child:
        try:
            yield Served(child, data)
        finally:
            child.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A broker for the tests that only look at it."""
    with serving(tmp_path_factory.mktemp("served") / "data") as running:
        yield running


def in_a_process(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=WAIT_S,
        check=False,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_says_one_line_serves_and_stops_cleanly(
    tmp_path: Path, number: signal.Signals
) -> None:
    data = tmp_path / "deep" / "data"
    with serving(data) as served:
        assert served.pid == served.child.pid
        with urllib.request.urlopen(f"http://{served.metrics}/health/ready") as answer:
            assert answer.status == 200
        assert ottla("topic", "create", "kept", *at(served.kafka)).exit_code == 0
        exit_code, stdout, stderr = served.stop(number)
    assert (exit_code, stdout) == (0, "")
    assert '"event": "started"' in stderr
    assert (data / ".kafka_cleanshutdown").exists()
    with serving(data) as served:
        assert ottla("topic", "list", "-o", "name", *at(served.kafka)).stdout == "kept\n"


def test_a_brokers_process_holds_nothing_of_the_command_line(served: Served) -> None:
    assert ottla("topic", "create", "any", *at(served.kafka)).exit_code == 0
    maps = Path(f"/proc/{served.pid}/maps").read_text()
    assert "pydantic_core" not in maps
    script = (
        "import sys\n"
        "import ottla.cli.broker.process, ottla.cli.broker.serve, ottla.cli.broker.up\n"
        "print(*sys.modules, sep='\\n')\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    imported = {name.partition(".")[0] for name in finished.stdout.split()}
    assert "uvloop" in imported
    assert imported.isdisjoint(NOT_A_BROKERS)


def test_a_directory_in_use_names_the_process_that_uses_it(served: Served) -> None:
    second = in_a_process("serve", "--data", str(served.data), *FREE_PORTS)
    assert second.returncode == 1
    assert f"error: {served.data} is in use by " in second.stderr
    assert f"(process {served.pid})" in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize("flag", ["--port", "--metrics-port"])
def test_a_taken_port_names_its_holder(tmp_path: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = [*FREE_PORTS, flag, str(port)]
        ran = in_a_process("serve", "--data", str(tmp_path / "data"), *NO_RESERVE, *options)
    assert ran.returncode == 1
    assert ran.stdout == ""
    first, advice = [line for line in ran.stderr.splitlines() if not line.startswith("{")]
    assert first.startswith(f"error: port {port} is taken by ")
    assert first.endswith(f"(process {os.getpid()})")
    assert flag in advice


def test_a_directory_that_may_not_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    ran = in_a_process("serve", "--data", str(tmp_path / "file" / "data"), *FREE_PORTS)
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: ")
    assert "Traceback" not in ran.stderr


def test_a_directory_of_another_node_is_a_clear_error(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as served:
        served.stop()
    ran = in_a_process(
        *("serve", "--data", str(tmp_path / "data"), *FREE_PORTS, "--set", "node.id=2")
    )
    assert ran.returncode == 1
    assert f"error: {tmp_path}/data cannot be used" in ran.stderr
    assert "node 1" in ran.stderr


def test_debug_reaches_the_brokers_process(tmp_path: Path) -> None:
    arguments = ("serve", "--data", str(tmp_path / "d"), *FREE_PORTS, "--set", "no.such=1")
    ran = in_a_process("--debug", *arguments)
    assert ran.returncode == 4
    assert "Traceback" in ran.stderr


def test_a_detached_start_that_could_not_write_its_log_is_to_be_repeated_in_the_foreground(
    tmp_path: Path,
) -> None:
    """A full disk takes no log either."""
    log = tmp_path / "ottla.log"
    log.write_text("error: of an earlier start\n")
    failure = start_failure("the broker", 1, str(log), log.stat().st_size)
    assert failure.why == f"it wrote nothing to its log, {log}"
    assert failure.advice == "run it without --detach to see its error"
    assert start_failure("the broker", 1, str(log), 0).advice == f"see its log, {log}"


# Settings


def test_flags_count_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    config = tmp_path / "ottla.toml"
    config.write_text('"num.partitions" = 5\n"node.id" = 5\n"log.dirs" = "/file"\n')
    flags = BrokerFlags(config=str(config), sets=["num.partitions=7"], data="here")
    settings = load_settings(flags, {"OTTLA_NUM_PARTITIONS": "6", "OTTLA_NODE_ID": "6"})
    assert settings[NUM_PARTITIONS] == 7
    assert settings[NODE_ID] == 6
    assert settings[LOG_DIRS] == (str(Path("here").absolute()),)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (BrokerFlags(), ("127.0.0.1", 9092)),
        (BrokerFlags(port=0), ("127.0.0.1", 0)),
        (BrokerFlags(host="0.0.0.0"), ("0.0.0.0", 9092)),
        (BrokerFlags(host="::1", port=5), ("::1", 5)),
    ],
)
def test_host_and_port_make_the_listener(flags: BrokerFlags, expected: tuple[str, int]) -> None:
    (listener,) = load_settings(flags, {})[LISTENERS]
    assert (listener.host, listener.port) == expected
    assert load_settings(BrokerFlags(metrics_port=7), {})[METRICS_PORT] == 7


@pytest.mark.parametrize(
    ("flags", "environment", "words"),
    [
        (BrokerFlags(port=1), {"OTTLA_LISTENERS": "PLAINTEXT://h:1"}, "--port and listeners"),
        (BrokerFlags(host="h", sets=["listeners=PLAINTEXT://h:1"]), {}, "--host and listeners"),
        (BrokerFlags(data="d", sets=["log.dirs=e"]), {}, "--data and --set log.dirs"),
        (BrokerFlags(metrics_port=1, sets=["ottla.metrics.port=2"]), {}, "--metrics-port and"),
        (BrokerFlags(sets=["num.partitions"]), {}, "is not NAME=VALUE"),
        (BrokerFlags(sets=["node.id=1", "node.id=2"]), {}, "two values"),
        (BrokerFlags(sets=["num.partitions=many"]), {}, "num.partitions"),
        (BrokerFlags(host="no host"), {}, "listeners"),
    ],
)
def test_flags_that_contradict_or_mean_nothing_are_usage_errors(
    flags: BrokerFlags, environment: dict[str, str], words: str
) -> None:
    with pytest.raises(Failure, match=words) as failed:
        load_settings(flags, environment)
    assert failed.value.exit_code == 2


def test_up_is_for_one_developer_and_serve_for_many(tmp_path: Path) -> None:
    """Under `up` a group's first member waits for no other, unless a setting says so."""
    name = GROUP_INITIAL_REBALANCE_DELAY_MS.name
    file = tmp_path / "ottla.toml"
    file.write_text(f'"{name}" = 7\n')

    def delay_ms(flags: BrokerFlags, environment: dict[str, str]) -> int:
        settings = load_settings(flags, environment, DEVELOPMENT)
        return settings[GROUP_INITIAL_REBALANCE_DELAY_MS]

    assert load_settings(BrokerFlags(), {})[GROUP_INITIAL_REBALANCE_DELAY_MS] == 3000
    assert delay_ms(BrokerFlags(), {}) == 0
    assert delay_ms(BrokerFlags(port=0), {}) == 0
    assert delay_ms(BrokerFlags(config=str(file)), {}) == 7
    assert delay_ms(BrokerFlags(), {"OTTLA_GROUP_INITIAL_REBALANCE_DELAY_MS": "8"}) == 8
    assert delay_ms(BrokerFlags(sets=[f"{name}=9"]), {}) == 9


@pytest.mark.parametrize(
    ("command", "expected"), [(("serve",), "3000"), (("up",), "0"), (("up", "--detach"), "0")]
)
def test_the_delay_in_force_is_the_commands(
    tmp_path: Path, command: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the settings that each command hands to the broker."""
    seen = []
    for module in (serve, up):
        monkeypatch.setattr(module, "run_broker", lambda settings, *_, **__: seen.append(settings))
    mode = {"serve": BrokerMode.SERVE, "up": BrokerMode.UP}[command[0]]
    mode = BrokerMode.UP_DETACHED if "--detach" in command else mode
    run_invocation(
        BrokerInvocation(mode=mode, flags=BrokerFlags(data=str(tmp_path)), program="ottla")
    )
    assert [str(each[GROUP_INITIAL_REBALANCE_DELAY_MS]) for each in seen] == [expected]


def test_a_config_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    ran = in_a_process("serve", "--config", str(tmp_path / "no.toml"), *FREE_PORTS)
    assert ran.returncode == 4
    assert "no.toml does not exist" in ran.stderr


@pytest.mark.parametrize(
    "invocation",
    [
        BrokerInvocation(mode=BrokerMode.SERVE, flags=BrokerFlags(), program="ottla"),
        BrokerInvocation(
            mode=BrokerMode.UP,
            flags=BrokerFlags(
                data="a b=c",
                host="::1",
                port=0,
                metrics_port=3,
                sets=("x=y=z", "v="),
                config="f.toml",
            ),
            program="python -m ottla.cli",
            is_debugged=True,
        ),
    ],
)
def test_an_invocation_is_parsed_back_from_its_command(invocation: BrokerInvocation) -> None:
    command = invocation.command
    assert BrokerInvocation.parse(command[command.index(invocation.mode) :]) == invocation


# up and down


@pytest.mark.parametrize("flag", ["--port", "--metrics-port"])
def test_a_detached_start_with_a_taken_port_says_so_plainly_and_leaves_nothing_behind(
    tmp_path: Path, flag: str
) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = [*FREE_PORTS, flag, str(port)]
        ran = in_a_process("up", "--detach", "--data", str(data), *ports, *NO_RESERVE)
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"error: port {port} is taken by ")
    assert not data.exists()


def test_up_detached_serves_until_down(tmp_path: Path, port: int) -> None:
    data = tmp_path / "data"
    ports = ("--port", str(port), "--metrics-port", "0")
    begun = in_a_process("up", "--detach", "--data", str(data), *ports, *NO_RESERVE)
    try:
        assert begun.returncode == 0, begun.stderr
        lines = begun.stdout.splitlines()
        assert re.fullmatch(r" 1  settings read.* [0-9.]+ s", lines[0])
        assert re.fullmatch(r" 2  broker started.* [0-9.]+ s", lines[1])
        endpoints = dict(line.split(None, 1) for line in lines if line[:1].isupper())
        assert endpoints["Data"] == str(data)
        assert endpoints["Access"] == "only this machine, without a password"
        assert "--wipe --yes" in endpoints["Wipe"]
        pid = int((data / "ottla.pid").read_text())
        readable_by_others = [
            path for path in (data, *data.rglob("*")) if path.stat().st_mode & 0o077
        ]
        assert readable_by_others == []
        kafka = endpoints["Kafka"]
        assert ottla("topic", "create", "t", *at(kafka)).exit_code == 0
        again = in_a_process("up", "--detach", "--data", str(data), *FREE_PORTS)
        assert again.returncode == 1
        assert f"(process {pid})" in again.stderr
    finally:
        ended = in_a_process("down", "--data", str(data))
    assert (ended.returncode, ended.stderr) == (0, f"stopped process {pid}\n")
    assert not (data / "ottla.pid").exists()
    assert (data / ".kafka_cleanshutdown").exists()
    assert ottla("topic", "list", "-b", kafka).exit_code == 3


def test_up_in_the_foreground_leaves_its_pid_while_it_runs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [sys.executable, "-m", "ottla.cli", "up", "--data", str(data)]
    with subprocess.Popen(
        [*command, *FREE_PORTS, *NO_RESERVE], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            shown = iter(child.stdout.readline, "")
            lines = [next(shown).rstrip()]
            while not lines[-1].startswith("Wipe"):
                lines.append(next(shown).rstrip())
            assert (data / "ottla.pid").read_text() == f"{child.pid}\n"
            assert any(line.startswith("Stop     Ctrl-C, or ") for line in lines)
            ended = in_a_process("down", "--data", str(data))
            assert ended.stderr == f"stopped process {child.pid}\n"
            assert list(shown) == ["stopped\n"]
            assert child.wait(timeout=WAIT_S) == 0
        finally:
            child.kill()
    assert not (data / "ottla.pid").exists()


def test_wiping_shows_the_plan_and_acts_with_yes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    begun = in_a_process("up", "--detach", "--data", str(data), *FREE_PORTS, *NO_RESERVE)
    assert begun.returncode == 0, begun.stderr
    pid = int((data / "ottla.pid").read_text())
    plan = ottla("down", "--wipe", "--data", data, "-o", "jsonl")
    (row,) = plan.rows
    assert (row["name"], row["runs"]) == (str(data), pid)
    assert row["bytes"] > 0
    assert "nothing was changed" in plan.stderr
    assert proc_table.process_using(str(data)) is not None
    done = ottla("down", "--wipe", "--yes", "--data", data)
    assert done.exit_code == 0
    assert not data.exists()


# Lets go of the lock, and then writes on, as a broker does with the record of its clean end.
LINGERING = """
import os, signal, sys, time
os.chdir(sys.argv[1])
lock = open(".lock", "w")
def stop(*_):
    lock.close()
    time.sleep(0.5)
    open(".kafka_cleanshutdown", "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
print("held", flush=True)
signal.pause()
"""


def test_nothing_is_wiped_while_the_stopped_broker_still_writes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").touch()
    with subprocess.Popen(
        [sys.executable, "-c", LINGERING, str(data)], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            (data / "ottla.pid").write_text(f"{child.pid}\n")
            done = ottla("down", "--wipe", "--yes", "--data", data)
            assert child.wait(timeout=WAIT_S) == 0
        finally:
            child.kill()
    assert done.exit_code == 0, done.stderr
    assert f"stopped process {child.pid}\n" in done.stderr
    assert not data.exists()


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process can be seen, as where they are another user's or in another PID namespace."""
    monkeypatch.setattr(down, "process_using", lambda _: None)
    monkeypatch.setattr(wipe, "process_using", lambda _: None)


@pytest.mark.parametrize("pid", [None, 1, 2**22 + 1])
@pytest.mark.usefixtures("unseen")
def test_the_data_of_a_live_broker_that_cannot_be_seen_is_not_wiped(
    tmp_path: Path, pid: int | None
) -> None:
    data = tmp_path / "data"
    with serving(data) as running:
        assert ottla("topic", "create", "kept", *at(running.kafka)).exit_code == 0
        if pid is not None:
            (data / "ottla.pid").write_text(f"{pid}\n")
        before = set(contents(data))
        for options in (("--wipe", "--yes"), ("--wipe",), ()):
            ran = ottla("down", *options, "--data", data)
            assert ran.exit_code == 1
            assert f"{data} is in use by a process that cannot be seen from here" in ran.stderr
        assert set(contents(data)) == before
        assert ottla("topic", "list", "-o", "name", *at(running.kafka)).stdout == "kept\n"


@pytest.mark.parametrize("name", [".lock", "__ottla_metadata-0/.lock"])
@pytest.mark.usefixtures("unseen")
def test_either_lock_of_a_broker_keeps_its_data_from_being_wiped(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    with serving(data) as running:
        running.stop()
    lock = RealFiles().lock(str(data / name))
    before = contents(data)
    ran = ottla("down", "--wipe", "--yes", "--data", data)
    lock.release()
    assert ran.exit_code == 1
    assert contents(data) == before
    assert ottla("down", "--wipe", "--yes", "--data", data).exit_code == 0
    assert not data.exists()


def test_no_broker_can_start_in_a_directory_while_it_is_wiped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with serving(data) as running:
        assert ottla("topic", "create", "t", *at(running.kafka)).exit_code == 0
        running.stop()
    remove, unlink = shutil.rmtree, os.unlink
    seen = []

    def start_another(path: str) -> None:
        names = sorted(entry.name for entry in data.iterdir())
        started = in_a_process("serve", "--data", str(data), *FREE_PORTS, *NO_RESERVE)
        seen.append((started.returncode, names))
        assert "is in use" in started.stderr

    def removing(path: str) -> None:
        remove(path)
        start_another(path)

    def unlinking(path: str, **rest: object) -> None:
        # The lock is the last to go: a start finds it, or an empty directory.
        if path == str(data / ".lock"):
            start_another(path)
            assert seen[-1][1] == [".lock"]
        unlink(path, **rest)

    monkeypatch.setattr(wipe.shutil, "rmtree", removing)
    monkeypatch.setattr(wipe.os, "unlink", unlinking)
    assert ottla("down", "--wipe", "--yes", "--data", data).exit_code == 0
    assert len(seen) >= 2
    assert {code for code, _ in seen} == {1}
    assert not data.exists()


def test_a_wipe_that_was_interrupted_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with serving(data) as running:
        assert ottla("topic", "create", "t", *at(running.kafka)).exit_code == 0
        running.stop()

    def failing(path: str) -> None:
        raise OSError(5, "Input/output error", path)

    with monkeypatch.context() as patched:
        patched.setattr(wipe.shutil, "rmtree", failing)
        assert ottla("down", "--wipe", "--yes", "--data", data).exit_code == 1
    assert (data / "meta.properties").exists()
    assert ottla("down", "--wipe", "--yes", "--data", data).exit_code == 0
    assert not data.exists()


@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_up_has_left_its_pid_before_any_client_is_answered(
    tmp_path: Path, port: int, detach: tuple[str, ...]
) -> None:
    """Else `ottla down` would not know a system that already serves."""
    data = tmp_path / "data"
    # A directory in its place: the broker cannot write its pid there, so nobody must hear of it.
    (data / "ottla.pid").mkdir(parents=True)
    ports = ("--port", str(port), "--metrics-port", "0")
    ran = in_a_process("up", "--data", str(data), *ports, *NO_RESERVE, *detach)
    assert ran.returncode == 1
    assert "Kafka" not in ran.stdout
    assert not proc_table.is_listened_on(port)
    assert "ottla.pid" in ran.stderr


def test_serve_takes_away_a_pid_that_an_ended_process_left(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "ottla.pid").write_text(f"{os.getpid()}\n")
    with serving(data) as running:
        assert not (data / "ottla.pid").exists()
        running.stop()


def test_down_does_not_stop_a_process_that_up_did_not_start(served: Served) -> None:
    ran = ottla("down", "--data", served.data)
    assert ran.exit_code == 1
    assert f"(process {served.pid})" in ran.stderr
    assert "did not start it" in ran.stderr
    assert served.child.poll() is None


def test_down_where_nothing_runs_says_so(tmp_path: Path) -> None:
    ran = ottla("down", "--data", tmp_path)
    assert (ran.exit_code, ran.stderr) == (0, f"no broker is running on {tmp_path}\n")


def test_no_directory_is_wiped_that_holds_no_logs(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("irreplaceable")
    ran = ottla("down", "--wipe", "--yes", "--data", tmp_path)
    assert ran.exit_code == 4
    assert (tmp_path / "thesis.tex").exists()


def test_a_wipe_leaves_every_file_that_a_broker_did_not_make(tmp_path: Path) -> None:
    data = tmp_path / "project"
    before = {"README.md": "read", "src/main.py": "print()", "src/.lock": "", "ottla.log.1": "n"}
    # Named as partitions are, and yet none.
    since = {
        "chapter-1/text.tex": "it was",
        "old.copy-delete/letter": "dear",
        "release-2/00000000000000000000.log": "built",
        "release-2/notes.txt": "n",
        "release-3/00000000000000000000.log": "built",
        "release-3/bin/tool": "x",
    }
    write_texts(data, before)
    begun = in_a_process("up", "--detach", "--data", str(data), *FREE_PORTS, *NO_RESERVE)
    names = "README.md, chapter-1, old.copy-delete, ottla.log.1, release-2, release-3, src"
    try:
        assert begun.returncode == 0, begun.stderr
        assert begun.stderr == f"{data} is not empty: it holds README.md, ottla.log.1, src\n"
        kafka = next(line.split()[1] for line in begun.stdout.splitlines() if "Kafka" in line)
        assert ottla("topic", "create", "t", *at(kafka)).exit_code == 0
        assert ottla("produce", "t", *at(kafka), stdin="hello\n").exit_code == 0
        assert (data / "t-0").is_dir()
        write_texts(data, since)
        plan = ottla("down", "--wipe", "--data", data, "-o", "jsonl")
    finally:
        done = ottla("down", "--wipe", "--yes", "--data", data)
    assert plan.rows[0]["left_alone"] == names
    assert f"kept: {names}\n" in plan.stderr
    assert done.exit_code == 0
    assert f"kept: {names}\n" in done.stderr
    left = {
        str(each.relative_to(data)): each.read_text() for each in data.rglob("*") if each.is_file()
    }
    assert left == before | since


def write_texts(directory: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def test_a_wipe_removes_all_files_of_a_broker_and_the_tools(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as running:
        running.stop()
    for name in (
        "meta.properties.tmp",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint.damaged",
        "recovery-point-offset-checkpoint.2.damaged",
        "log-directories",
        "ottla.pid.tmp",
        "t-0/00000000000000000000.log.730.damaged",
        "u-1.0123456789abcdef0123456789abcdef-delete/00000000000000000007.timeindex.deleted",
        f"{'v' * 200}.0123456789abcdef0123456789abcdef-stray/leader-epoch-checkpoint",
        "w-2.adopting/00000000000000000000.log",
        "x-3/partition.metadata.tmp",
        "y-4/written-again-when-opened",
        "y-4/cut-and-not-reported",
        "metadata-applied-offset",
        "z-5/00000000000000000000.log.swap",
    ):
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).touch()
    # A crash came between a directory and its first file.
    (data / "empty-0").mkdir()
    done = ottla("down", "--wipe", "--yes", "--data", data)
    assert (done.exit_code, data.exists()) == (0, False), done.stderr


def test_serve_says_that_a_new_log_directory_is_not_empty_and_starts(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("irreplaceable")
    for told in (True, False):
        with serving(tmp_path) as running:
            _, _, stderr = running.stop()
        # It is a log directory from then on.
        assert ("data directory is not empty" in stderr and "thesis.tex" in stderr) == told
