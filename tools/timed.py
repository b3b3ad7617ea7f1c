"""Times the parts of `make test` and compares each with its budget.

    timed.py run NAME MINUTES COMMAND...    runs a part, notes its minutes, ends as it ended
    timed.py report                         prints the parts that were noted, and forgets them

A part over its budget is marked, and does not fail: machines differ. It is a reason to move tests
that prove nothing more to `make soak`.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

NOTES = Path(".cache/test-times.jsonl")
USAGE = 2


def run(name: str, budget_minutes: float, command: list[str]) -> int:
    began = time.monotonic()
    code = subprocess.run(command, check=False).returncode
    note = {"part": name, "minutes": (time.monotonic() - began) / 60, "budget": budget_minutes}
    NOTES.parent.mkdir(exist_ok=True)
    with NOTES.open("a") as notes:
        notes.write(json.dumps(note) + "\n")
    if code:
        report()
    return code


def report() -> None:
    notes = [json.loads(line) for line in NOTES.read_text().splitlines()] if NOTES.exists() else []
    NOTES.unlink(missing_ok=True)
    for note in notes:
        mark = "  over its budget" if note["minutes"] > note["budget"] else ""
        print(f"{note['part']:<20} {note['minutes']:5.1f} min of {note['budget']:g}{mark}")
    total, budget = (sum(note[key] for note in notes) for key in ("minutes", "budget"))
    print(f"{'all':<20} {total:5.1f} min of {budget:g}")


def main() -> int:
    match sys.argv[1:]:
        case ["run", name, minutes, *command] if command:
            return run(name, float(minutes), command)
        case ["report"]:
            report()
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return USAGE


if __name__ == "__main__":
    sys.exit(main())
