"""A supervisor decides when a process that ended is started again."""

import pytest

from ottla.cli.cluster.child_process import end_text
from ottla.cli.cluster.restart_backoff import DELAY_S_MAX, RESET_AFTER_S, RestartBackoff
from ottla.cli.cluster.supervisor import Supervisor


class FakeChild:
    """Ends when the test says so."""

    name = "broker 1"

    def __init__(self) -> None:
        self.pid: int | None = 100
        self.ended: int | None = None
        self.starts = 0
        self.fails_with: OSError | None = None

    def end(self, return_code: int) -> None:
        self.pid, self.ended = None, return_code

    def start(self) -> None:
        self.starts += 1
        if self.fails_with is not None:
            raise self.fails_with
        self.pid, self.ended = 100 + self.starts, None


class Story:
    def __init__(self, *, restarts: bool = True) -> None:
        self.now_s = 0.0
        self.lines: list[str] = []
        self.child = FakeChild()
        self.supervisor = Supervisor(
            [self.child], restarts=restarts, report=self.lines.append, now_s=lambda: self.now_s
        )


def test_the_delay_doubles_up_to_its_maximum() -> None:
    backoff = RestartBackoff()
    backoff.started(0.0)
    assert [backoff.ended(1.0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert DELAY_S_MAX == 30


def test_a_minute_of_life_resets_the_delay() -> None:
    backoff = RestartBackoff()
    backoff.started(0.0)
    assert [backoff.ended(1.0), backoff.ended(1.0)] == [1, 2]
    backoff.started(10.0)
    assert backoff.ended(10.0 + RESET_AFTER_S - 0.1) == 4
    backoff.started(100.0)
    assert backoff.ended(100.0 + RESET_AFTER_S) == 1


def test_a_process_that_ended_is_started_again_after_a_second() -> None:
    story = Story()
    assert story.supervisor.tick() is None
    story.child.end(-9)
    assert story.supervisor.tick() == 1.0
    assert story.lines == ["broker 1 ended (signal SIGKILL); it starts again in 1 s"]
    story.now_s = 0.5
    assert story.supervisor.tick() == 0.5
    assert story.child.starts == 0
    story.now_s = 1.0
    story.supervisor.tick()
    assert story.child.starts == 1
    assert story.supervisor.tick() is None
    assert story.lines[1:] == ["broker 1 runs again, process 101"]
    story.child.end(1)
    assert story.supervisor.tick() == 2.0
    assert story.lines[2:] == ["broker 1 ended (exit code 1); it starts again in 2 s"]


def test_a_start_that_fails_is_repeated() -> None:
    story = Story()
    story.child.end(0)
    story.supervisor.tick()
    story.now_s = 1.0
    story.child.fails_with = OSError("no memory")
    assert story.supervisor.tick() == 2.0
    assert story.lines[1:] == ["broker 1 ended (no memory); it starts again in 2 s"]


def test_without_restarts_it_stays_down_and_is_reported_once() -> None:
    story = Story(restarts=False)
    story.child.end(3)
    assert story.supervisor.tick() is None
    assert story.supervisor.tick() is None
    assert story.child.starts == 0
    assert story.lines == ["broker 1 ended (exit code 3) and stays down: --no-restart"]


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exit code 0"), (-15, "signal SIGTERM"), (-100, "signal 100")]
)
def test_how_a_process_ended(code: int, text: str) -> None:
    assert end_text(code) == text
