"""Generated Python source that remembers the message field of each line.

Errors can so name the field at no cost on the success path: the failed line is looked up only after
a failure.
"""

import contextlib
from collections.abc import Callable, Iterator
from struct import Struct
from types import TracebackType
from typing import Any, NamedTuple


class Piece(NamedTuple):
    """One of the values that a line reads or writes.

    `path` contains index variables: `topics[{i1}].name`.
    """

    path: str
    code: str = ""
    size: int = 0
    value: str = ""


class Failure(NamedTuple):
    """A line of generated code that failed: its local variables and its values."""

    variables: dict[str, Any]
    pieces: tuple[Piece, ...]


class Source:
    """A function under construction: its lines, their values, and the names that they use."""

    def __init__(self, title: str, names: dict[str, Any]) -> None:
        self._file = f"<{title}>"
        self._names = names
        self._lines: list[str] = []
        self._pieces: dict[int, tuple[Piece, ...]] = {}
        self._depth = 0
        self._serial = 0

    def add(self, line: str, *about: Piece) -> None:
        self._lines.append("    " * self._depth + line)
        self._pieces[len(self._lines)] = about

    @contextlib.contextmanager
    def block(self, opening: str, *about: Piece) -> Iterator[None]:
        """An indented block under `opening`."""
        self.add(opening, *about)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """A new variable name."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def constant(self, prefix: str, value: Any) -> str:
        """A name for a constant value."""
        name = self.fresh(prefix)
        self._names[name] = value
        return name

    def literal(self, value: Any) -> str:
        """An expression for a default value."""
        if value is None or isinstance(value, bool | int | str) or value == ():
            return repr(value)
        return self.constant("default", value)

    def struct_method(self, method: str, codes: str) -> str:
        """A name for a bound method of the big-endian struct of `codes`."""
        name = f"{method}_{codes.replace('?', 'T')}"
        if name not in self._names:
            self._names[name] = getattr(Struct(">" + codes), method)
        return name

    def compile(self, function: str) -> Callable[..., Any]:
        """Executes the source and returns the function that it defines."""
        code = compile("\n".join(self._lines), self._file, "exec")
        exec(code, self._names)  # noqa: S102 the source consists of declarations only
        compiled: Callable[..., Any] = self._names[function]
        return compiled

    def failure(self, traceback: TracebackType | None) -> Failure | None:
        """The line of this source in which an exception was raised, or that it passed through."""
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code.co_filename == self._file:
                return Failure(frame.f_locals, self._pieces[traceback.tb_lineno])
            traceback = traceback.tb_next
        return None
