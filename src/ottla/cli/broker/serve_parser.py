"""`ottla serve` as scripts and service managers call it, read without typer.

A broker's start and its memory must not pay for a library that reads commands. What is not plain
(help, a mistake, an option given twice) is left to the library, which has the words for it.
"""

import re
from collections.abc import Sequence

from ottla.address import PORT_MAX

# Of the library's own reading: test_serve_parser.py compares both.
_ONCE = ("data", "host", "port", "metrics-port", "config")
_REPEATED = ("set",)
_PORTS = ("port", "metrics-port")
_PORT = re.compile(r"[0-9]{1,5}")


def plain_words(arguments: Sequence[str]) -> list[str] | None:
    """The words of the order (see `broker_process.Order`); None if the library has to look."""
    if not arguments or arguments[0] != "serve":
        return None
    words = ["serve"]
    names = set()
    left = iter(arguments[1:])
    for option in left:
        name, sign, value = option.removeprefix("--").partition("=")
        if not option.startswith("--") or name not in (*_ONCE, *_REPEATED):
            return None
        if not sign:
            value = next(left, "")
        if not _is_plain(name, value) or (name in _ONCE and name in names):
            return None
        names.add(name)
        words.append(f"{name}={value}")
    return words


def _is_plain(name: str, value: str) -> bool:
    if name in _PORTS:
        return _PORT.fullmatch(value) is not None and int(value) <= PORT_MAX
    return value != "" and not value.startswith("-")
