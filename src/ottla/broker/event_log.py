"""A node's log: events with fields, as text on a terminal and as JSON lines anywhere else.

An event has a name that never changes (`listener_opened`) and fields that do. What repeats is
limited, so that a peer that fails a thousand times a second fills no disk and takes no time.
Nothing here is shared between nodes, and Python's `logging` is left alone: it is one for the whole
process, and a process may hold many nodes.
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
    """How much it matters."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Logger(Protocol):
    """What the parts of a node are given to speak with.

    Each event is limited by its name alone, or by its name and `repeats_of` (a peer, a partition)
    where one of them must not silence the others.
    """

    def debug(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...

    def info(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...

    def warning(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...

    def error(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None: ...


class Entry(NamedTuple):
    """One line of the log, before it has a form."""

    wall_ms: int
    level: Level
    event: str
    node_id: int
    fields: Mapping[str, object]


Form = Callable[[Entry], str]


def as_text(entry: Entry) -> str:
    """For eyes: time, level, node and event in columns, then each field as `name=value`.

    What cannot be seen in a value is escaped: a peer's text cannot pass for a line of ours.
    """
    fields = [f"{name}={_text_value(value)}" for name, value in entry.fields.items()]
    head = f"{_utc(entry.wall_ms, ' ')} {entry.level.name:7} [{entry.node_id}] {entry.event}"
    if not fields:
        return head
    column = len(head) - len(entry.event) + EVENT_COLUMN_CHARACTERS
    return f"{head:{column}} {' '.join(fields)}"


def as_json(entry: Entry) -> str:
    """For programs: an object a line."""
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


class Repeated(NamedTuple):
    """What was held back of one event."""

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
    """Lets an event pass `times_max` times a minute and counts the rest. Does no I/O.

    Told apart by what they repeat, events of one name pass ten times as often altogether: a peer
    may have any number of addresses. It remembers `events_max` events, and forgets the one it has
    known longest first.
    """

    __slots__ = ("_events_max", "_times_max", "_windows")

    def __init__(self, times_max: int = 10, events_max: int = 1024) -> None:
        self._times_max = times_max
        self._events_max = events_max
        # By event and what it repeats, in the order in which they were opened.
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()

    def admits(self, level: Level, event: str, repeats_of: str, now_ns: int) -> bool:
        """Whether to write this one. Take what has `ended` first."""
        if not repeats_of:
            return self._window(level, event, "", now_ns, self._times_max).admits()
        own = self._windows.get((event, repeats_of))
        if own is not None and own.is_full:
            return own.admits()
        # First of all of that name: new windows are opened only while it has room.
        together = self._window(level, event, "", now_ns, self._times_max * 10)
        return (
            together.admits()
            and self._window(level, event, repeats_of, now_ns, self._times_max).admits()
        )

    def _window(
        self, level: Level, event: str, repeats_of: str, now_ns: int, times_max: int
    ) -> _Window:
        return self._windows.setdefault((event, repeats_of), _Window(level, now_ns, times_max))

    def ended(self, now_ns: int | None = None) -> Iterator[Repeated]:
        """Forgets every minute that is over, or all if no time is given; yields what they hid."""
        while self._windows:
            key, window = next(iter(self._windows.items()))
            is_over = now_ns is None or now_ns - window.opened_ns >= WINDOW_NS
            if not is_over and len(self._windows) < self._events_max:
                return
            del self._windows[key]
            if window.count > window.times_max:
                yield Repeated(window.level, *key, window.count - window.times_max)


class NodeLogger:
    """The `Logger` of a node, on a stream that the node was given.

    Each line is written and flushed at once: it is small, and what is told last before a crash is
    what one wants to read. A stream that fails loses lines (`lines_lost`), never the broker.
    """

    __slots__ = ("_clock", "_form", "_level", "_limit", "_node_id", "_stream", "lines_lost")

    def __init__(
        self,
        stream: TextIO,
        clock: Clock,
        node_id: int,
        *,
        level: Level = Level.INFO,
        form: Form | None = None,
        limit: RepeatLimit | None = None,
    ) -> None:
        """The form is `as_text` where the stream is a terminal, else `as_json`, unless given."""
        self._stream = stream
        self._clock = clock
        self._node_id = node_id
        self._level = level
        self._form = form or (as_text if stream.isatty() else as_json)
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
        """Tells all that was held back. The stream stays open: it is not ours."""
        self._tell_repeated(self._limit.ended())

    def _log(self, level: Level, event: str, repeats_of: str, fields: Mapping[str, object]) -> None:
        if level < self._level:
            return
        now_ns = self._clock.steady_ns()
        self._tell_repeated(self._limit.ended(now_ns))
        if self._limit.admits(level, event, repeats_of, now_ns):
            self._write(level, event, fields)

    def _tell_repeated(self, repeats: Iterator[Repeated]) -> None:
        for level, event, repeats_of, times in repeats:
            fields: dict[str, object] = {"repeats_of": repeats_of} if repeats_of else {}
            self._write(level, event, {**fields, "repeated_times": times})

    def _write(self, level: Level, event: str, fields: Mapping[str, object]) -> None:
        entry = Entry(self._clock.wall_ms(), level, event, self._node_id, fields)
        line = f"{self._form(entry)}\n"
        try:
            self._stream.write(line)
            self._stream.flush()
        except (OSError, ValueError):  # A closed stream is a ValueError.
            self.lines_lost += 1
