"""`ottla up`: a whole local system, in the foreground or beside it."""

import os
import re
import subprocess
from typing import NamedTuple

from ottla.broker.event_log import Level
from ottla.broker.node.endpoints import Endpoints
from ottla.cli.broker.pid_file import open_private
from ottla.cli.broker.process import Order
from ottla.cli.broker.run import run_broker
from ottla.cli.broker.settings import BrokerFlags, data_directory, load_settings
from ottla.cli.log.broker_files import LOG_FILE, foreign_in_new, listed
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import say
from ottla.native import scan
from ottla.seams.clock import RealClock
from ottla.settings.development import DEVELOPMENT

_READY = re.compile(r"ready kafka=(\S+) metrics=(\S+) pid=([0-9]+)")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
# What is shown of the log of a broker that did not start.
_LOG_LINES_SHOWN_MAX = 10


class Running(NamedTuple):
    """A system that is up."""

    kafka: str
    metrics: str
    data: str


class Steps:
    """Numbered lines, each with the time since the one before it."""

    def __init__(self) -> None:
        self._clock = RealClock()
        self._count = 0
        self._since_ns = self._clock.steady_ns()

    def done(self, what: str) -> None:
        self._count += 1
        now_ns = self._clock.steady_ns()
        seconds = (now_ns - self._since_ns) / 1e9
        self._since_ns = now_ns
        print(f" {self._count}  {what:<62} {seconds:6.2f} s", flush=True)


def run_here(flags: BrokerFlags, program: str) -> None:
    """Runs the system in this process until it is told to stop. Failure if it does not start."""
    steps = Steps()
    settings = load_settings(flags, os.environ, DEVELOPMENT)
    data = data_directory(settings)
    steps.done(f"settings read, native package {_native_kind()}")

    def on_ready(endpoints: Endpoints) -> None:
        steps.done("broker started: logs recovered, listening")
        running = Running(str(endpoints.kafka), str(endpoints.metrics), data)
        print(_summary(running, flags, program, stop_first="Ctrl-C, or "), flush=True)

    run_broker(settings, Level.WARNING, on_ready, leaves_pid=True)
    print("stopped")


def start_beside(order: Order) -> None:
    """Starts a broker in a session of its own, and returns once it is up. Failure.

    Its log goes to a file beside the data.
    """
    steps = Steps()
    data = data_directory(load_settings(order.flags, os.environ))
    steps.done(f"settings read, native package {_native_kind()}")
    if foreign := foreign_in_new(data):
        say(f"{data} is not empty: it holds {listed(foreign)}")
    os.makedirs(data, mode=0o700, exist_ok=True)
    log_path = os.path.join(data, LOG_FILE)
    with open(log_path, "ab", opener=open_private) as log:
        log_start = log.tell()
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            order.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    # The pipe is closed behind the one line that the broker has to say.
    said = child.stdout.readline() if child.stdout else ""
    ready = _READY.fullmatch(said.strip())
    if ready is None:
        raise _did_not_start(child.wait(), log_path, log_start)
    steps.done("broker started beside this terminal: logs recovered, listening")
    print(_summary(Running(ready[1], ready[2], data), order.flags, order.program))


def _did_not_start(exit_code: int, log_path: str, log_start: int) -> Failure:
    """What the broker said last before it ended, in its own words."""
    with open(log_path, encoding="utf-8", errors="replace") as log:
        log.seek(log_start)
        last_words = [line.strip() for line in log][-_LOG_LINES_SHOWN_MAX:]
    known = exit_code in tuple(ExitCode)
    return Failure(
        "the broker did not start",
        why="; ".join(last_words) or None,
        advice=f"{log_path} has all that it said",
        exit_code=ExitCode(exit_code) if known else ExitCode.FAILED,
    )


def _summary(running: Running, flags: BrokerFlags, program: str, stop_first: str = "") -> str:
    host, _, port = running.kafka.rpartition(":")
    reach = "only this machine" if host in _LOOPBACK else "whoever reaches this machine"
    at = "" if port == "9092" else f" -b 127.0.0.1:{port}"
    down = f"{program} down --data {flags.data}" if flags.data else f"{program} down"
    lines = (
        ("Kafka", running.kafka),
        ("Metrics", f"http://{running.metrics}/metrics"),
        ("Data", running.data),
        ("Access", f"{reach}, without a password"),
        ("", ""),
        ("Try", f"echo hello | {program} produce greetings{at}"),
        ("", f"{program} consume greetings{at}"),
        ("Stop", f"{stop_first}{down}"),
        ("Wipe", f"{down} --wipe --yes"),
    )
    return "\n" + "\n".join(f"{name:<9}{text}".rstrip() for name, text in lines)


def _native_kind() -> str:
    return "interpreted" if scan.__file__.endswith(".py") else "compiled"
