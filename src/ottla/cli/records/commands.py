"""What `ottla produce` and `ottla consume` take. Each imports its work when it runs."""

from enum import StrEnum
from typing import Annotated

import typer

from ottla.cli.shared.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_S_DEFAULT,
    Bootstrap,
    Partitions,
    TimeoutS,
)

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
GroupName = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="Share the topic with the other members of this group, from where it stands;"
        " --from is for what it has never read.",
    ),
]


class AcksOption(StrEnum):
    """Who must have a record before it counts as sent."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


class CodecOption(StrEnum):
    """How batches are compressed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class RecordForm(StrEnum):
    """What is printed of a record."""

    VALUE = "value"
    KEY_VALUE = "key-value"
    JSONL = "jsonl"


class IsolationOption(StrEnum):
    """Whether records of transactions that are open or were aborted are shown."""

    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"


def produce(
    topic: TopicName,
    *,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", "-K", metavar="TEXT", help="What stands before it is the key."
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="NAME=VALUE", help="A header of each record; may be repeated."
        ),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Where all records go, whatever their keys."),
    ] = None,
    codec: Annotated[
        CodecOption, typer.Option("--codec", "-z", help="How batches are compressed.")
    ] = CodecOption.NONE,
    acks: Annotated[
        AcksOption, typer.Option(help="Who must have a record: nobody, its leader, all in sync.")
    ] = AcksOption.ALL,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Send each line of standard input as a record."""
    from ottla.cli.records.produce import Lines, produce_lines
    from ottla.cli.shared.name_value_pairs import parse_pairs
    from ottla.protocol.acks import Acks
    from ottla.protocol.compression import Codec

    lines = Lines(
        topic=topic,
        key_separator=key_separator.encode() if key_separator else None,
        headers=tuple(
            (name, value.encode()) for name, value in parse_pairs(header or (), "--header")
        ),
        partition=partition,
        codec=Codec[codec.name],
        acks=Acks[acks.name],
    )
    produce_lines(lines, bootstrap, timeout)


def consume(
    topic: TopicName,
    *,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="beginning, end, an offset, a time (2026-01-31T18:00) or how long ago (15m, 2h,"
            " 3d). By default the beginning; with --follow the end.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as records arrive, until interrupted.")
    ] = False,
    count_max: Annotated[
        int | None, typer.Option("--max", "-n", min=1, metavar="N", help="Stop after N records.")
    ] = None,
    partition: Partitions = None,
    group: GroupName = None,
    output: Annotated[
        RecordForm, typer.Option("--output", "-o", help="What to print of each record.")
    ] = RecordForm.VALUE,
    key_separator: Annotated[
        str,
        typer.Option(
            "--key-separator",
            "-K",
            metavar="TEXT",
            show_default="a tab",
            help="Between key and value.",
        ),
    ] = "\t",
    isolation: Annotated[
        IsolationOption,
        typer.Option(help="Whether records of open and aborted transactions are shown."),
    ] = IsolationOption.COMMITTED,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Print a topic's records, alone or in a group. Stops at the end, unless it follows."""
    import sys

    from ottla.cli.records.consume import Wish, consume_records
    from ottla.cli.records.record_printer import printer
    from ottla.cli.shared.connect import reach
    from ottla.cli.shared.failure import ExitCode, Failure
    from ottla.cli.shared.offsets_spec import parse_place
    from ottla.protocol.isolation_level import Isolation
    from ottla.seams.clock import RealClock

    if group is not None and partition:
        raise Failure(
            "--partition and --group do not go together",
            why="a group decides itself who reads which partitions",
            exit_code=ExitCode.USAGE,
        )
    start = start or ("end" if follow else "beginning")
    wish = Wish(
        topic=topic,
        start=parse_place(start, "--from", RealClock().wall_ms()),
        partitions=partition,
        follows=follow,
        count_max=count_max,
        isolation=Isolation[f"READ_{isolation.name}"],
    )
    out = printer(output, key_separator, sys.stdout.buffer)
    if group is None:
        reach(bootstrap, timeout, lambda router: consume_records(router, wish, out))
        return
    from ottla.cli.records.consume_group import consume_in_group

    reach(bootstrap, timeout, lambda router: consume_in_group(router, wish, group, out))
