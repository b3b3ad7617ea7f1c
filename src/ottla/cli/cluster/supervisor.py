"""Runs processes until a signal stops it, and starts those again that end."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from ottla.cli.cluster.broker_child import BrokerChild
from ottla.cli.cluster.child_process import end_text
from ottla.cli.cluster.restart_backoff import RestartBackoff
from ottla.cli.shared.output import say

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# For the controlled shutdown of a broker, which takes over 10 s if nobody takes its leaderships.
STOP_TIMEOUT_S = 45.0
# How often a broker that starts is looked at.
_START_POLL_S = 0.05
# A terminal and `make` both pass on one Ctrl-C.
_SAME_STOP_S = 1.0


def report(line: str) -> None:
    """Prints a line with the time of day, on standard error."""
    say(f"{time.strftime('%H:%M:%S')} {line}")


class Child(Protocol):
    """A process that is supervised, over all its restarts."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        ...

    @property
    def ended(self) -> int | None:
        """The exit code of a process that has ended by itself."""
        ...

    def start(self) -> None: ...


class StopRequested(BaseException):
    """A stop signal arrived while the processes were started."""


class StopSignal:
    """The first stop signal ends `wait`; a second one, a second later, ends this process."""

    def __init__(self) -> None:
        self.is_set = False
        self._set_s = 0.0
        self._raises = False
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handles the signals, and is woken by children that end."""
        handled = {each: signal.signal(each, self._on_stop) for each in STOP_SIGNALS}
        handled[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        woken_before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(woken_before)
            for number, handler in handled.items():
                signal.signal(number, handler)
            os.close(self._wake_read)
            os.close(self._wake_write)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """A signal raises StopRequested inside."""
        self._raises = True
        try:
            if self.is_set:
                raise StopRequested
            yield
        finally:
            self._raises = False

    def wait(self, timeout_s: float | None) -> None:
        """Until a signal, the end of a child, or the timeout."""
        if not self.is_set and select.select([self._wake_read], [], [], timeout_s)[0]:
            os.read(self._wake_read, 1 << 16)

    def _on_stop(self, number: int, _: FrameType | None) -> None:
        now_s = time.monotonic()
        if self.is_set and now_s - self._set_s > _SAME_STOP_S:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if not self.is_set:
            self.is_set, self._set_s = True, now_s
            if self._raises:
                raise StopRequested


class Supervisor:
    """Keeps children running. `report` prints a line for people."""

    def __init__(
        self,
        children: Sequence[Child],
        *,
        restarts: bool,
        report: Callable[[str], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backoffs = {child: RestartBackoff() for child in children}
        self._restarts = restarts
        self._report = report
        self._now_s = now_s
        # When a child that has ended starts again; None if it does not.
        self._starts_at_s: dict[Child, float | None] = {}
        self._starting: dict[Child, None] = {}
        for backoff in self._backoffs.values():
            backoff.started(now_s())

    def run(self, stop: StopSignal) -> None:
        """Returns after a stop signal."""
        while not stop.is_set:
            stop.wait(self.tick())

    def tick(self) -> float | None:
        """Starts what is due. The seconds until the next call; None until a child ends."""
        now_s = self._now_s()
        for child in self._backoffs:
            if child in self._starts_at_s:
                self._start_if_due(child, now_s)
            elif (return_code := child.ended) is not None:
                self._plan_restart(child, end_text(return_code), now_s)
            elif child in self._starting:
                self._report_ready(child)
        if self._starting:
            return _START_POLL_S
        due = [each for each in self._starts_at_s.values() if each is not None]
        return max(min(due) - now_s, 0.0) if due else None

    def _plan_restart(self, child: Child, how: str, now_s: float) -> None:
        self._starting.pop(child, None)
        if not self._restarts:
            self._starts_at_s[child] = None
            self._report(f"{child.name} ended ({how}) and stays down: --no-restart")
            return
        delay_s = self._backoffs[child].ended(now_s)
        self._starts_at_s[child] = now_s + delay_s
        self._report(f"{child.name} ended ({how}); it starts again in {delay_s:g} s")

    def _start_if_due(self, child: Child, now_s: float) -> None:
        at_s = self._starts_at_s[child]
        if at_s is None or at_s > now_s:
            return
        del self._starts_at_s[child]
        self._backoffs[child].started(now_s)
        try:
            child.start()
        except OSError as error:
            self._plan_restart(child, str(error), now_s)
        else:
            self._starting[child] = None

    def _report_ready(self, child: Child) -> None:
        if isinstance(child, BrokerChild) and not child.is_ready:
            return
        del self._starting[child]
        self._report(f"{child.name} runs again, process {child.pid}")


def start_brokers(brokers: Sequence[BrokerChild], stop: StopSignal) -> None:
    """Returns when all serve. Failure if one ends before."""
    for broker in brokers:
        broker.start()
    while not all(broker.is_ready for broker in brokers):
        for broker in brokers:
            if broker.ended is not None:
                raise broker.start_failure()
        stop.wait(_START_POLL_S)


def stop_brokers(brokers: Sequence[BrokerChild], report: Callable[[str], None]) -> None:
    """Controlled shutdowns of all at once."""
    for broker in brokers:
        broker.begin_stop()
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    for broker in brokers:
        if not broker.finish_stop(max(deadline_s - time.monotonic(), 0.1)):
            report(f"{broker.name} did not stop within {STOP_TIMEOUT_S:g} s, and was killed")
