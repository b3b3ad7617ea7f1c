"""Parses plain calls of `ottla serve`, as scripts make them, without typer.

A broker's start and memory must not pay for the import of typer. Typer handles all other calls:
help, mistakes, repeated options.
"""

import re
from collections.abc import Sequence

from ottla.address import PORT_MAX

# As in `commands.serve`: test_serve_parser.py compares both.
_ONCE = ("data", "host", "port", "metrics-port", "zookeeper", "config")
_REPEATED = ("set",)
_PORTS = ("port", "metrics-port")
_PORT = re.compile(r"[0-9]{1,5}")


def plain_serve_arguments(arguments: Sequence[str]) -> list[str] | None:
    """The arguments of `process.BrokerInvocation.parse`; None if typer has to parse the call."""
    if not arguments or arguments[0] != "serve":
        return None
    parsed = ["serve"]
    names = set()
    remaining = iter(arguments[1:])
    for option in remaining:
        name, sign, value = option.removeprefix("--").partition("=")
        if not option.startswith("--") or name not in (*_ONCE, *_REPEATED):
            return None
        if not sign:
            value = next(remaining, "")
        if not _is_plain(name, value) or (name in _ONCE and name in names):
            return None
        names.add(name)
        parsed.append(f"{name}={value}")
    return parsed


def _is_plain(name: str, value: str) -> bool:
    if name in _PORTS:
        return _PORT.fullmatch(value) is not None and int(value) <= PORT_MAX
    return value != "" and not value.startswith("-")
