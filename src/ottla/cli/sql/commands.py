"""The arguments of `ottla sql`. It imports its implementation when it runs."""

from enum import StrEnum
from typing import Annotated

import typer

from ottla.cli.records.commands import IsolationOption
from ottla.cli.shared.options import BOOTSTRAP_DEFAULT, TIMEOUT_S_DEFAULT, Bootstrap, TimeoutS


class ResultFormat(StrEnum):
    """The format of rows. `name` prints the first cell of each."""

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
        bool, typer.Option("--text", "-t", help="Read keys and values as strings, not binary.")
    ] = False,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="POSITION",
            help="The start of the tables: beginning, an offset, a time (2026-01-31T18:00) or how"
            " long ago (15m, 2h, 3d).",
        ),
    ] = "beginning",
    end: Annotated[
        str,
        typer.Option(
            "--to", metavar="POSITION", help="Their end; at most the current end of the topics."
        ),
    ] = "end",
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, metavar="N", help="At most N rows.")
    ] = None,
    isolation: Annotated[
        IsolationOption,
        typer.Option(help="Whether records of open and aborted transactions are read."),
    ] = IsolationOption.COMMITTED,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A Spark setting (spark.driver.memory=4g); may be repeated.",
        ),
    ] = None,
    output: Annotated[
        ResultFormat, typer.Option("--output", "-o", help="The format of the rows.")
    ] = ResultFormat.TABLE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Query topics in SQL, each as a table of its name. Requires Java and ottla[spark]."""
    import sys

    from ottla.cli.shared.name_value_pairs import parse_assignments
    from ottla.cli.shared.offsets_spec import parse_position
    from ottla.cli.sql.run import SqlOptions, run_query
    from ottla.cli.sql.topics import QueryRange
    from ottla.protocol.isolation_level import Isolation
    from ottla.seams.clock import RealClock

    now_ms = RealClock().wall_ms()
    options = SqlOptions(
        query=sys.stdin.read() if query == "-" else query,
        query_range=QueryRange(
            parse_position(start, "--from", now_ms),
            parse_position(end, "--to", now_ms),
            Isolation[f"READ_{isolation.name}"],
        ),
        is_text=text,
        rows_max=limit,
        conf=parse_assignments(conf or (), "--conf"),
    )
    run_query(options, output, bootstrap, timeout)
