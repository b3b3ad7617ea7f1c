"""`ottla up`: a local system, in the foreground or detached."""

import os
import re
import subprocess
from typing import NamedTuple

from ottla.broker.event_log import Level
from ottla.broker.node.endpoints import Endpoints
from ottla.cli.broker.invocation import BrokerInvocation
from ottla.cli.broker.pid_file import open_private
from ottla.cli.broker.proc_table import process_using
from ottla.cli.broker.run import check_ports, run_broker
from ottla.cli.broker.settings import BrokerFlags, data_directory, load_settings
from ottla.cli.broker.start_failure import start_failure
from ottla.cli.broker.steps import Steps
from ottla.cli.log.broker_files import LOG_FILE, abbreviated, foreign_entries_of_new
from ottla.cli.shared.output import say
from ottla.native import scan
from ottla.settings.development import DEVELOPMENT

_READY = re.compile(r"ready kafka=(\S+) metrics=(\S+) pid=([0-9]+)")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class RunningSystem(NamedTuple):
    """The addresses and the data directory of a running system."""

    kafka: str
    metrics: str
    data: str


def run_in_foreground(flags: BrokerFlags, program: str) -> None:
    """Runs the system in this process until a signal stops it. Failure if it does not start."""
    steps = Steps()
    settings = load_settings(flags, os.environ, DEVELOPMENT)
    data = data_directory(settings)
    steps.done(f"settings read, native package {_native_kind()}")

    def on_ready(endpoints: Endpoints) -> None:
        steps.done("broker started: logs recovered, listening")
        running = RunningSystem(str(endpoints.kafka), str(endpoints.metrics), data)
        print(_summary(running, flags, program, stop_first="Ctrl-C, or "), flush=True)

    run_broker(settings, Level.WARNING, on_ready, writes_pid_file=True)
    print("stopped")


def start_detached(invocation: BrokerInvocation) -> None:
    """Starts a broker in its own session, and returns once it is up. Failure.

    Its log is a file in the data directory.
    """
    steps = Steps()
    settings = load_settings(invocation.flags, os.environ, DEVELOPMENT)
    data = data_directory(settings)
    steps.done(f"settings read, native package {_native_kind()}")
    if process_using(data) is None:
        # The broker looks again: a failure here is said plainly, and leaves nothing behind.
        check_ports(settings)
    if foreign := foreign_entries_of_new(data):
        say(f"{data} is not empty: it holds {abbreviated(foreign)}")
    os.makedirs(data, mode=0o700, exist_ok=True)
    log_path = os.path.join(data, LOG_FILE)
    with open(log_path, "ab", opener=open_private) as log:
        log_start = log.tell()
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            invocation.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    # The broker prints one line; reading ends there.
    said = child.stdout.readline() if child.stdout else ""
    ready = _READY.fullmatch(said.strip())
    if ready is None:
        raise start_failure("the broker", child.wait(), log_path, log_start)
    steps.done("broker started in the background: logs recovered, listening")
    print(_summary(RunningSystem(ready[1], ready[2], data), invocation.flags, invocation.program))


def _summary(running: RunningSystem, flags: BrokerFlags, program: str, stop_first: str = "") -> str:
    host, _, port = running.kafka.rpartition(":")
    access = "only this machine" if host in _LOOPBACK else "every host that reaches this machine"
    at = "" if port == "9092" else f" -b 127.0.0.1:{port}"
    down = f"{program} down --data {flags.data}" if flags.data else f"{program} down"
    lines = (
        ("Kafka", running.kafka),
        ("Metrics", f"http://{running.metrics}/metrics"),
        ("Data", running.data),
        ("Access", f"{access}, without a password"),
        ("", ""),
        ("Try", f"echo hello | {program} produce greetings{at}"),
        ("", f"{program} consume greetings{at}"),
        ("Stop", f"{stop_first}{down}"),
        ("Wipe", f"{down} --wipe --yes"),
    )
    return "\n" + "\n".join(f"{name:<9}{text}".rstrip() for name, text in lines)


def _native_kind() -> str:
    return "interpreted" if scan.__file__.endswith(".py") else "compiled"
