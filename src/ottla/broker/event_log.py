"""A node's event log: events with fields, as text on a terminal and as JSON lines anywhere else.

An event has a constant name (`listener_opened`) and variable fields. Repeated events are limited:
a peer that fails a thousand times a second neither fills the disk nor costs time. Nothing here is
shared between nodes. Python's `logging` is not used, since it is global to the process, and a
process may run several nodes.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from math import isfinite
from typing import NamedTuple, Protocol, TextIO

from ottla.seams.clock import Clock

VALUE_CHARACTERS_MAX = 4000
EVENT_COLUMN_CHARACTERS = 28
WINDOW_NS = 60 * 10**9


class Level(IntEnum):
    """The severity of an event."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Logger(Protocol):
    """The logger that the parts of a node use.

    Repetitions are limited per event name, or per name and `repeats_of` (a peer, a partition) if
    one of them must not suppress the others.
    """

    def debug(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...

    def info(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...

    def warning(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...

    def error(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...


class LogEntry(NamedTuple):
    """One event of the log, before it is formatted."""

    wall_ms: int
    level: Level
    event: str
    node_id: int
    fields: Mapping[str, object]


Formatter = Callable[[LogEntry], str]


def as_text(entry: LogEntry) -> str:
    """For people: time, level, node and event in columns, then each field as `name=value`.

    Unprintable characters are escaped, so that a peer's text cannot imitate a line of the log.
    """
    fields = [f"{name}={_text_value(value)}" for name, value in entry.fields.items()]
    head = f"{_utc(entry.wall_ms, ' ')} {entry.level.name:7} [{entry.node_id}] {entry.event}"
    if not fields:
        return head
    column = len(head) - len(entry.event) + EVENT_COLUMN_CHARACTERS
    return f"{head:{column}} {' '.join(fields)}"


def as_json(entry: LogEntry) -> str:
    """For programs: one JSON object per line."""
    return json.dumps(
        {
            "ts": f"{_utc(entry.wall_ms, 'T')}Z",
            "level": entry.level.name.lower(),
            "event": entry.event,
            "node": entry.node_id,
            "fields": {name: _json_value(value) for name, value in entry.fields.items()},
        }
    )


def _utc(wall_ms: int, separator: str) -> str:
    time = datetime.fromtimestamp(wall_ms / 1000, UTC)
    return time.replace(tzinfo=None).isoformat(separator, timespec="milliseconds")


def _text_value(value: object) -> str:
    text = _plain(value)
    is_bare = text.isprintable() and not any(mark in text for mark in ' "=')
    return text if text and is_bare else json.dumps(text, ensure_ascii=not text.isprintable())


def _json_value(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    return _plain(value)


def _plain(value: object) -> str:
    text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    if len(text) <= VALUE_CHARACTERS_MAX:
        return text
    return f"{text[:VALUE_CHARACTERS_MAX]}…"


class Suppressed(NamedTuple):
    """The number of suppressed repetitions of an event."""

    level: Level
    event: str
    repeats_of: str
    times: int


@dataclass(slots=True)
class _Window:
    level: Level
    opened_ns: int
    times_max: int
    count: int = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self.times_max

    def admits(self) -> bool:
        self.count += 1
        return self.count <= self.times_max


class RepeatLimit:
    """Admits an event `times_max` times per minute and counts the rest. Does no I/O.

    Events of one name with different `repeats_of` are admitted ten times as often in total, since a
    peer may have any number of addresses. Keeps `events_max` events, and drops the oldest first.
    """

    __slots__ = ("_events_max", "_times_max", "_windows")

    def __init__(self, times_max: int = 10, events_max: int = 1024) -> None:
        self._times_max = times_max
        self._events_max = events_max
        # By event and `repeats_of`, in the order in which they were opened.
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()

    def admits(self, level: Level, event: str, repeats_of: str, now_ns: int) -> bool:
        """Whether to write this event. Call `ended` first."""
        if not repeats_of:
            return self._window(level, event, "", now_ns, self._times_max).admits()
        own = self._windows.get((event, repeats_of))
        if own is not None and own.is_full:
            return own.admits()
        # The shared window first: it limits the number of new windows per name.
        together = self._window(level, event, "", now_ns, self._times_max * 10)
        return (
            together.admits()
            and self._window(level, event, repeats_of, now_ns, self._times_max).admits()
        )

    def _window(
        self, level: Level, event: str, repeats_of: str, now_ns: int, times_max: int
    ) -> _Window:
        return self._windows.setdefault((event, repeats_of), _Window(level, now_ns, times_max))

    def ended(self, now_ns: int | None = None) -> Iterator[Suppressed]:
        """Drops windows older than a minute, or all without a time; yields their suppressions."""
        while self._windows:
            key, window = next(iter(self._windows.items()))
            is_over = now_ns is None or now_ns - window.opened_ns >= WINDOW_NS
            if not is_over and len(self._windows) < self._events_max:
                return
            del self._windows[key]
            if window.count > window.times_max:
                yield Suppressed(window.level, *key, window.count - window.times_max)


class NodeLogger:
    """The `Logger` of a node, on a given stream.

    Each line is flushed at once, so that the last lines before a crash are not lost. If the stream
    fails, lines are lost and counted (`lines_lost`); the broker continues.
    """

    __slots__ = ("_clock", "_formatter", "_level", "_limit", "_node_id", "_stream", "lines_lost")

    def __init__(
        self,
        stream: TextIO,
        clock: Clock,
        node_id: int,
        *,
        level: Level = Level.INFO,
        formatter: Formatter | None = None,
        limit: RepeatLimit | None = None,
    ) -> None:
        """The default formatter is `as_text` for a terminal, and `as_json` otherwise."""
        self._stream = stream
        self._clock = clock
        self._node_id = node_id
        self._level = level
        self._formatter = formatter or (as_text if stream.isatty() else as_json)
        self._limit = limit if limit is not None else RepeatLimit()
        self.lines_lost = 0

    def debug(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self._log(Level.DEBUG, event, repeats_of, fields)

    def info(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self._log(Level.INFO, event, repeats_of, fields)

    def warning(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self._log(Level.WARNING, event, repeats_of, fields)

    def error(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self._log(Level.ERROR, event, repeats_of, fields)

    def close(self) -> None:
        """Writes the counts of suppressed events. Does not close the stream."""
        self._write_suppressed(self._limit.ended())

    def _log(self, level: Level, event: str, repeats_of: str, fields: Mapping[str, object]) -> None:
        if level < self._level:
            return
        now_ns = self._clock.steady_ns()
        self._write_suppressed(self._limit.ended(now_ns))
        if self._limit.admits(level, event, repeats_of, now_ns):
            self._write(level, event, fields)

    def _write_suppressed(self, repeats: Iterator[Suppressed]) -> None:
        for level, event, repeats_of, times in repeats:
            fields: dict[str, object] = {"repeats_of": repeats_of} if repeats_of else {}
            self._write(level, event, {**fields, "repeated_times": times})

    def _write(self, level: Level, event: str, fields: Mapping[str, object]) -> None:
        entry = LogEntry(self._clock.wall_ms(), level, event, self._node_id, fields)
        line = f"{self._formatter(entry)}\n"
        try:
            self._stream.write(line)
            self._stream.flush()
        except (OSError, ValueError):  # A closed stream is a ValueError.
            self.lines_lost += 1
