"""Python source that is written line by line and knows which field each line is about.

That is how an error names its field at no cost to the code that succeeds: the line that failed is
looked up only once it has.
"""

import contextlib
from collections.abc import Callable, Iterator
from struct import Struct
from types import TracebackType
from typing import Any, NamedTuple


class Piece(NamedTuple):
    """One value among those that a line reads or writes together.

    `path` names indices by the variables that hold them: `topics[{i1}].name`.
    """

    path: str
    code: str = ""
    size: int = 0
    value: str = ""


class Failure(NamedTuple):
    """A line of generated code that failed: its local variables, and what it is about."""

    variables: dict[str, Any]
    pieces: tuple[Piece, ...]


class Source:
    """A function under construction: its lines, what they are about, and the names they use."""

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
        """A variable that nothing else uses."""
        self._serial += 1
        return f"{prefix}{self._serial}"

    def constant(self, prefix: str, value: Any) -> str:
        """A name for a value that the code refers to."""
        name = self.fresh(prefix)
        self._names[name] = value
        return name

    def literal(self, value: Any) -> str:
        """An expression for a default."""
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
        """Runs the source, and hands out the function that it defines."""
        code = compile("\n".join(self._lines), self._file, "exec")
        exec(code, self._names)  # noqa: S102 the source is made of declarations alone
        compiled: Callable[..., Any] = self._names[function]
        return compiled

    def failure(self, traceback: TracebackType | None) -> Failure | None:
        """Where in this source an exception was raised, or passed through."""
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_code.co_filename == self._file:
                return Failure(frame.f_locals, self._pieces[traceback.tb_lineno])
            traceback = traceback.tb_next
        return None
