"""What `ottla pipeline …` takes. Each command imports its work when it runs."""

from enum import StrEnum
from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import BOOTSTRAP_DEFAULT, TIMEOUT_S_DEFAULT, Bootstrap, TimeoutS

app = typer.Typer(
    help="Run pipelines of Spark on topics, and make records for them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PipelineName = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="One of `ottla pipeline list`.")
]
TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="Another topic than the usual one.")
]


class SourceFormat(StrEnum):
    """By which of Spark's sources a topic is read."""

    OTTLA = "ottla"
    KAFKA = "kafka"


@app.command("list")
def list_(*, output: Listing = ListingFormat.TABLE) -> None:
    """List pipelines."""
    from ottla.spark.pipelines.catalogue import PIPELINES

    writer = listing_writer(output, named="pipeline")
    for each in PIPELINES.values():
        writer.write(
            {
                "kind": "pipeline",
                "name": each.name,
                "topic": each.topic,
                "writes": ",".join(each.queries),
                "purpose": each.purpose,
            }
        )
    writer.close()


@app.command()
def run(
    name: PipelineName,
    *,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FOLDER",
            help="Where rows and checkpoints go, a path that every node of Spark sees."
            " By default ./pipelines/PIPELINE.",
        ),
    ] = None,
    console: Annotated[
        bool, typer.Option("--console", help="Print rows instead, from the first record on.")
    ] = False,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="End where the topic ends now, rather than never.")
    ] = False,
    topic: TopicOption = None,
    source: Annotated[
        SourceFormat,
        typer.Option(
            help="How topics are read: kafka is Spark's own connector, and needs its jar."
        ),
    ] = SourceFormat.OTTLA,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="One of the source; may be repeated."),
    ] = None,
    master: Annotated[
        str,
        typer.Option(metavar="URL", help="Where Spark runs: local[N], spark://…, yarn, k8s://…"),
    ] = "local[*]",
    archive: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="From `ottla pipeline pack`, for nodes without ottla."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="One of Spark's; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Run a pipeline from where its last run ended, until Ctrl-C or SIGTERM."""
    from ottla.cli.pipeline.arguments import check_options, check_topic, folder_path, known_pipeline
    from ottla.cli.shared.failure import ExitCode, Failure
    from ottla.cli.shared.name_value_pairs import parse_assignments
    from ottla.cli.shared.spark_required import require_spark

    if console and to is not None:
        raise Failure("--console and --to exclude each other", exit_code=ExitCode.USAGE)
    pipeline = known_pipeline(name)
    options = parse_assignments(option or (), "--option")
    spark_conf = parse_assignments(conf or (), "--conf")
    if source is SourceFormat.OTTLA:
        check_options(options)
    require_spark()
    if not options:
        check_topic(topic or pipeline.topic, bootstrap)

    from ottla.cli.pipeline.run import run_pipeline
    from ottla.cli.pipeline.spark_session import SparkChoice
    from ottla.spark.pipelines.streams import ConsoleSink, FolderSink, Streams

    streams = Streams(
        pipeline=name,
        bootstrap_servers=bootstrap,
        topic=topic or pipeline.topic,
        target=ConsoleSink() if console else FolderSink(folder_path(to or f"./pipelines/{name}")),
        source=source.value,
        options=options,
        is_until_end=until_end,
    )
    run_pipeline(pipeline, streams, SparkChoice(master, archive, spark_conf))


@app.command()
def generate(
    name: PipelineName,
    *,
    records: Annotated[
        int, typer.Option("--records", "-n", min=1, metavar="N", help="How many.")
    ] = 60_000,
    seed: Annotated[
        int, typer.Option(min=0, max=2**64 - 1, metavar="N", help="Another one, other records.")
    ] = 1,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=1_000_000,
            metavar="N",
            help="Send so many a second as they happen, rather than at once what has happened.",
        ),
    ] = None,
    topic: TopicOption = None,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=1, metavar="N", help="Of a topic that is new.")
    ] = 4,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Send records like those of real life to a pipeline's topic, made if it is missing."""
    from ottla.cli.pipeline.arguments import known_pipeline
    from ottla.cli.pipeline.generate import Generated, send_generated
    from ottla.cli.shared.connect import reach

    pipeline = known_pipeline(name)
    wanted = Generated(
        pipeline=pipeline,
        topic=topic or pipeline.topic,
        partitions=partitions,
        records=records,
        seed=seed,
        rate=rate,
    )
    reach(bootstrap, timeout, lambda router: send_generated(router, wanted))


@app.command()
def pack(
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="The archive to write.")
    ] = "ottla-spark.zip",
    *,
    arrow: Annotated[
        bool, typer.Option("--arrow", help="Also Arrow: nodes then need Python alone.")
    ] = False,
) -> None:
    """Write an archive of what Spark's nodes need, for nodes on which ottla is not installed."""
    from ottla.cli.shared.output import say
    from ottla.cli.shared.spark_required import require_spark

    require_spark()

    from ottla.spark.packing import is_compiled
    from ottla.spark.packing import pack as write_archive

    packed = write_archive(path, with_arrow=arrow)
    kind = "machine code" if is_compiled() else "interpreted native code"
    say(f"packed {packed.files} files with {kind}, {packed.bytes / 1e6:.1f} MB")
    typer.echo(packed.path)
