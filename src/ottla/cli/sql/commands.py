"""What `ottla sql` takes. It imports its work when it runs."""

from enum import StrEnum
from typing import Annotated

import typer

from ottla.cli.records.commands import IsolationOption
from ottla.cli.shared.options import BOOTSTRAP_DEFAULT, TIMEOUT_S_DEFAULT, Bootstrap, TimeoutS


class ResultFormat(StrEnum):
    """What rows are printed as. `name` is the first cell of each."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    YAML = "yaml"
    NAME = "name"


def sql(
    query: Annotated[
        str,
        typer.Argument(metavar="QUERY", help="A query in Spark's SQL; - reads standard input."),
    ],
    *,
    text: Annotated[
        bool, typer.Option("--text", "-t", help="Keys and values are strings, not binary.")
    ] = False,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Where topics begin: beginning, an offset, a time (2026-01-31T18:00) or how long"
            " ago (15m, 2h, 3d).",
        ),
    ] = "beginning",
    end: Annotated[
        str,
        typer.Option("--to", metavar="PLACE", help="Where they end; at most where they do now."),
    ] = "end",
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="At most N rows.")
    ] = None,
    isolation: Annotated[
        IsolationOption,
        typer.Option(help="Whether records of open and aborted transactions are seen."),
    ] = IsolationOption.COMMITTED,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting of Spark (spark.driver.memory=4g); may be repeated.",
        ),
    ] = None,
    output: Annotated[
        ResultFormat, typer.Option("--output", "-o", help="How to print the rows.")
    ] = ResultFormat.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Ask topics a question in SQL: each is a table of that name. Needs Java and ottla[spark]."""
    import sys

    from ottla.cli.shared.name_value_pairs import parse_assignments
    from ottla.cli.shared.offsets_spec import parse_place
    from ottla.cli.sql.run import Wish, run_query
    from ottla.cli.sql.topics import Extent
    from ottla.protocol.isolation_level import Isolation
    from ottla.seams.clock import RealClock

    now_ms = RealClock().wall_ms()
    wish = Wish(
        query=sys.stdin.read() if query == "-" else query,
        extent=Extent(
            parse_place(start, "--from", now_ms),
            parse_place(end, "--to", now_ms),
            Isolation[f"READ_{isolation.name}"],
        ),
        is_text=text,
        rows_max=limit,
        conf=parse_assignments(conf or (), "--conf"),
    )
    run_query(wish, output, bootstrap, timeout)
