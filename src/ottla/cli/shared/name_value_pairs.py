"""Parsing of options of the form `NAME=VALUE`."""

from collections.abc import Iterable

from ottla.cli.shared.failure import ExitCode, Failure


def parse_pairs(texts: Iterable[str], option: str) -> list[tuple[str, str]]:
    """Names and values in order. Failure if a name or the sign is missing."""
    pairs = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise Failure(f"{option} {text!r} is not NAME=VALUE", exit_code=ExitCode.USAGE)
        pairs.append((name, value))
    return pairs


def parse_assignments(texts: Iterable[str], option: str) -> dict[str, str]:
    """Values by name. Failure as for `parse_pairs`, and if a name has two values."""
    values: dict[str, str] = {}
    for name, value in parse_pairs(texts, option):
        if values.setdefault(name, value) != value:
            raise Failure(f"{option} gives {name} two values", exit_code=ExitCode.USAGE)
    return values
