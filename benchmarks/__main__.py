"""`make bench`: runs every row and writes docs/benchmarks.md."""

import sys
from pathlib import Path

from benchmarks import codec, machine, rows, storage

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
TEXT = """\
# How fast it is

Written by `make bench`; nothing here was measured in any other way. Figures are of one machine and
one run: compare them with the estimate beside them and with each other, not with other machines.
There is no broker yet, so there is nothing to hold beside Apache Kafka: these rows are of the parts
that its speed will stand on.

{machine}

{table}"""


def main() -> None:
    # Before the run: what else the machine was busy with belongs to the figures.
    description = machine.describe()
    found = []
    for part in (codec, storage):
        for row in part.rows():
            found.append(row)
            print(" | ".join(row.cells()[:5]), flush=True)
    PAGE.write_text(TEXT.format(machine=description, table=rows.markdown(found)))
    print(f"\nwritten to {PAGE.relative_to(Path.cwd())}", file=sys.stderr)


if __name__ == "__main__":
    main()
