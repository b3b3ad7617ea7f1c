"""The arguments of `ottla produce` and `ottla consume`, which import their implementation when they
run."""

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
        help="Consume as a member of this group, from its committed offsets; --from is for"
        " partitions without one.",
    ),
]


class AcksOption(StrEnum):
    """The replicas that must have a record before it counts as sent."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


class CodecOption(StrEnum):
    """The compression of batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class RecordFormat(StrEnum):
    """The parts of a record that are printed."""

    VALUE = "value"
    KEY_VALUE = "key-value"
    JSONL = "jsonl"


class IsolationOption(StrEnum):
    """Whether records of open and aborted transactions are shown."""

    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"


def produce(
    topic: TopicName,
    *,
    key_separator: Annotated[
        str | None,
        typer.Option(
            "--key-separator", "-K", metavar="TEXT", help="Separates the key from the value."
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
        typer.Option(min=0, metavar="N", help="Send all records here, regardless of their keys."),
    ] = None,
    codec: Annotated[
        CodecOption, typer.Option("--codec", "-z", help="The compression of batches.")
    ] = CodecOption.NONE,
    acks: Annotated[
        AcksOption,
        typer.Option(
            help="The required acknowledgements: none, the leader's, all in-sync replicas'."
        ),
    ] = AcksOption.ALL,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Send each line of standard input as a record."""
    from ottla.cli.records.produce import ProduceOptions, produce_lines
    from ottla.cli.shared.name_value_pairs import parse_pairs
    from ottla.protocol.acks import Acks
    from ottla.protocol.compression import Codec

    options = ProduceOptions(
        topic=topic,
        key_separator=key_separator.encode() if key_separator else None,
        headers=tuple(
            (name, value.encode()) for name, value in parse_pairs(header or (), "--header")
        ),
        partition=partition,
        codec=Codec[codec.name],
        acks=Acks[acks.name],
    )
    produce_lines(options, bootstrap, timeout)


def consume(
    topic: TopicName,
    *,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="POSITION",
            help="The start: beginning, end, an offset, a time (2026-01-31T18:00) or how long ago"
            " (15m, 2h, 3d). By default the beginning; with --follow the end.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new records until interrupted.")
    ] = False,
    count_max: Annotated[
        int | None, typer.Option("--max", "-n", min=1, metavar="N", help="Stop after N records.")
    ] = None,
    partition: Partitions = None,
    group: GroupName = None,
    output: Annotated[
        RecordFormat, typer.Option("--output", "-o", help="The parts of a record to print.")
    ] = RecordFormat.VALUE,
    key_separator: Annotated[
        str,
        typer.Option(
            "--key-separator",
            "-K",
            metavar="TEXT",
            show_default="a tab",
            help="Printed between key and value.",
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

    from ottla.cli.records.consume import ConsumeOptions, consume_records
    from ottla.cli.records.record_printer import printer
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.shared.failure import ExitCode, Failure
    from ottla.cli.shared.offsets_spec import parse_position
    from ottla.protocol.isolation_level import Isolation
    from ottla.seams.clock import RealClock

    if group is not None and partition:
        raise Failure(
            "--partition and --group exclude each other",
            why="a group assigns partitions to its members itself",
            exit_code=ExitCode.USAGE,
        )
    start = start or ("end" if follow else "beginning")
    options = ConsumeOptions(
        topic=topic,
        start=parse_position(start, "--from", RealClock().wall_ms()),
        partitions=partition,
        follows=follow,
        count_max=count_max,
        isolation=Isolation[f"READ_{isolation.name}"],
    )
    out = printer(output, key_separator, sys.stdout.buffer)
    if group is None:
        run_with_cluster(bootstrap, timeout, lambda router: consume_records(router, options, out))
        return
    from ottla.cli.records.consume_group import consume_in_group

    run_with_cluster(
        bootstrap, timeout, lambda router: consume_in_group(router, options, group, out)
    )
