"""A node's event log: the text and JSON formats, and the limit of repetitions."""

import io
import json
from typing import Any

import pytest

from ottla.broker.event_log import (
    VALUE_CHARACTERS_MAX,
    Level,
    LogEntry,
    NodeLogger,
    RepeatLimit,
    as_json,
    as_text,
)
from tests.sim.seams.clock import SimClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Broken(io.StringIO):
    """A pipe without a reader."""

    def write(self, text: str, /) -> int:
        raise BrokenPipeError


class Journal:
    """A logger on a stream, with a clock that can be moved."""

    def __init__(self, stream: io.StringIO | None = None, **options: Any) -> None:
        self.clock = SimClock()
        self.stream = stream if stream is not None else io.StringIO()
        self.logger = NodeLogger(self.stream, self.clock, 7, **options)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        entries = [json.loads(line) for line in self.lines]
        return [(entry["event"], entry["fields"]) for entry in entries]


def text_of(**fields: object) -> str:
    return as_text(LogEntry(0, Level.INFO, "seen", 1, fields)).partition("seen")[2].strip()


def test_a_terminal_gets_columns_of_text() -> None:
    journal = Journal(Terminal())
    journal.logger.info("listener_opened", host="127.0.0.1", port=9092)
    journal.clock.advance(ms=1)
    journal.logger.warning("disk_low", free_bytes=12)
    journal.logger.error("stopped")
    assert journal.lines == [
        "2023-11-14 22:13:20.000 INFO    [7] listener_opened              host=127.0.0.1 port=9092",
        "2023-11-14 22:13:20.001 WARNING [7] disk_low                     free_bytes=12",
        "2023-11-14 22:13:20.001 ERROR   [7] stopped",
    ]


def test_other_streams_get_one_json_object_per_line() -> None:
    journal = Journal()
    journal.logger.warning("disk_low", free_bytes=12, log_dir="/data", full=False, since=None)
    assert [json.loads(line) for line in journal.lines] == [
        {
            "ts": "2023-11-14T22:13:20.000Z",
            "level": "warning",
            "event": "disk_low",
            "node": 7,
            "fields": {"free_bytes": 12, "log_dir": "/data", "full": False, "since": None},
        }
    ]


def test_fields_may_have_any_name() -> None:
    journal = Journal()
    journal.logger.info("replayed", event="topic", level="high", node=3, ts=1)
    assert journal.events == [("replayed", {"event": "topic", "level": "high", "node": 3, "ts": 1})]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("grün", "grün"),
        ("two words", '"two words"'),
        ("zwei Wörter", '"zwei Wörter"'),
        ("", '""'),
        ("a=b", '"a=b"'),
        ('say "no"', '"say \\"no\\""'),
        ("first\n2023-11-14 ERROR forged", '"first\\n2023-11-14 ERROR forged"'),
        ("\x1b[31mred\x9b", '"\\u001b[31mred\\u009b"'),
        (OSError(28, "No space left"), '"OSError: [Errno 28] No space left"'),
        (None, "None"),
        (1.5, "1.5"),
    ],
)
def test_a_value_stays_on_its_line_and_in_its_place(value: object, shown: str) -> None:
    assert text_of(name=value) == f"name={shown}"


def test_json_is_json_whatever_the_value() -> None:
    fields = {"rate": float("nan"), "error": ValueError("bad\n"), "path": {"a"}, "half": 0.5}
    line = as_json(LogEntry(0, Level.INFO, "seen", 1, fields))
    assert json.loads(line, parse_constant=pytest.fail)["fields"] == {
        "rate": "nan",
        "error": "ValueError: bad\n",
        "path": "{'a'}",
        "half": 0.5,
    }


def test_a_long_value_is_cut() -> None:
    assert text_of(name="x" * 10**6) == f"name={'x' * VALUE_CHARACTERS_MAX}…"


def test_events_below_the_level_are_not_written() -> None:
    quiet, loud = Journal(), Journal(level=Level.DEBUG)
    for journal in (quiet, loud):
        journal.logger.debug("detail")
    assert quiet.lines == []
    assert loud.events == [("detail", {})]


def test_repetitions_are_suppressed_and_counted_after_a_minute() -> None:
    journal = Journal(limit=RepeatLimit(times_max=3))
    for number in range(10):
        journal.logger.warning("frame_too_large", size=number)
        journal.clock.advance(ms=1_000)
    journal.logger.info("unrelated")
    assert journal.events == [
        *(("frame_too_large", {"size": number}) for number in range(3)),
        ("unrelated", {}),
    ]
    journal.clock.advance(ms=49_999)
    journal.logger.info("too early")
    assert journal.events[4:] == [("too early", {})]
    journal.clock.advance(ms=1)
    journal.logger.info("in time")
    assert journal.events[5:] == [("frame_too_large", {"repeated_times": 7}), ("in time", {})]
    assert json.loads(journal.lines[5])["level"] == "warning"
    journal.logger.warning("frame_too_large", size=11)
    assert journal.events[7:] == [("frame_too_large", {"size": 11})]


def test_the_next_event_writes_earlier_suppressions() -> None:
    journal = Journal(limit=RepeatLimit(times_max=1))
    journal.logger.info("again")
    journal.logger.info("again")
    journal.clock.advance(ms=60_000)
    journal.logger.info("again")
    assert journal.events == [("again", {}), ("again", {"repeated_times": 1}), ("again", {})]


def test_one_peers_repetitions_do_not_suppress_anothers() -> None:
    journal = Journal(limit=RepeatLimit(times_max=1))
    for peer in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        journal.logger.info("refused", repeats_of=peer, peer=peer)
    journal.logger.close()
    assert journal.events == [
        ("refused", {"peer": "10.0.0.1"}),
        ("refused", {"peer": "10.0.0.2"}),
        ("refused", {"repeats_of": "10.0.0.1", "repeated_times": 1}),
    ]


def test_many_peers_are_limited_together() -> None:
    journal = Journal(limit=RepeatLimit(times_max=2, events_max=50))
    for number in range(10_000):
        journal.logger.info("refused", repeats_of=f"peer-{number}")
    journal.logger.close()
    assert len(journal.lines) == 20 + 1
    assert journal.events[-1] == ("refused", {"repeated_times": 9_980})


def test_known_events_are_limited_and_no_count_is_lost() -> None:
    journal = Journal(limit=RepeatLimit(times_max=1, events_max=3))
    for name in ("a", "a", "b", "c", "d"):
        journal.logger.info(name)
    assert journal.events == [
        ("a", {}),
        ("b", {}),
        ("c", {}),
        ("a", {"repeated_times": 1}),
        ("d", {}),
    ]


def test_a_wall_clock_that_is_set_back_does_not_extend_the_minute() -> None:
    journal = Journal(limit=RepeatLimit(times_max=1))
    journal.logger.info("again")
    journal.clock.jump_wall(-3_600_000)
    journal.clock.advance(ms=60_000)
    journal.logger.info("again")
    assert len(journal.lines) == 2


def test_a_stream_that_fails_loses_lines_and_not_the_broker() -> None:
    broken, closed = Journal(Broken()), Journal()
    closed.stream.close()
    for journal in (broken, closed):
        journal.logger.error("disk_failed")
        assert journal.logger.lines_lost == 1


def test_two_nodes_in_one_process_each_have_their_own_log() -> None:
    one = Journal(limit=RepeatLimit(times_max=1))
    other = Journal(limit=RepeatLimit(times_max=1))
    one.logger.info("started")
    one.logger.info("started")
    other.logger.info("started")
    assert len(one.lines) == len(other.lines) == 1
