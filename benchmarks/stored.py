"""Results in a file beside the page, so that rows can be run again one by one."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import Result, Side
from benchmarks.row import Ran, Row

FILE_NAME = "results.json"


def merge(path: Path, results: Sequence[Result], rows: Sequence[Row]) -> list[Result]:
    """Replaces the stored results of these rows; returns what is stored of all `rows`, in their
    order. Results of rows that no longer exist are dropped.
    """
    known = {_key(row): row for row in rows}
    found = _read(path) | {_key(result.row): _dump(result) for result in results}
    found = {key: found[key] for key in known if key in found}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    return [_load(known[key], each) for key, each in found.items()]


def _key(row: Row) -> str:
    return f"{row.group}: {row.name}"


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _dump(result: Result) -> dict[str, Any]:
    return {
        "base": dataclasses.asdict(result.base),
        "ours": dataclasses.asdict(result.ours),
        "trouble": result.trouble,
        "share": result.share,
    }


def _load(row: Row, stored: Mapping[str, Any]) -> Result:
    base, ours = _side(stored["base"]), _side(stored["ours"])
    return Result(row, base, ours, stored["trouble"], stored["share"])


def _side(stored: Mapping[str, Any]) -> Side:
    return Side([Ran(**ran) for ran in stored["runs"]], stored["cpu_s"])
