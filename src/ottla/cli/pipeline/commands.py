"""The arguments of `ottla pipeline …`. Each command imports its implementation when it runs."""

from enum import StrEnum
from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import BOOTSTRAP_DEFAULT, TIMEOUT_S_DEFAULT, Bootstrap, TimeoutS

app = typer.Typer(
    help="Run Spark pipelines on topics, and generate records for them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PipelineName = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="One of `ottla pipeline list`.")
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help="The topic, if not the pipeline's default."),
]


class SourceFormat(StrEnum):
    """The Spark source that reads a topic."""

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
            help="The folder for rows and checkpoints, a path that every Spark node can access."
            " By default ./pipelines/PIPELINE.",
        ),
    ] = None,
    console: Annotated[
        bool, typer.Option("--console", help="Print the rows instead, from the first record.")
    ] = False,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the current end of the topic.")
    ] = False,
    topic: TopicOption = None,
    source: Annotated[
        SourceFormat,
        typer.Option(
            help="The source of topics: kafka is Spark's own connector, and needs its jar."
        ),
    ] = SourceFormat.OTTLA,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="A source option; may be repeated."),
    ] = None,
    master: Annotated[
        str,
        typer.Option(metavar="URL", help="Spark's master: local[N], spark://…, yarn, k8s://…"),
    ] = "local[*]",
    archive: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="From `ottla pipeline pack`, for nodes without ottla."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A Spark setting; may be repeated."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
) -> None:
    """Run a pipeline from the end of its last run, until Ctrl-C or SIGTERM."""
    from ottla.cli.pipeline.arguments import check_options, check_topic, find_pipeline, folder_path
    from ottla.cli.shared.failure import ExitCode, Failure
    from ottla.cli.shared.name_value_pairs import parse_assignments
    from ottla.cli.shared.spark_required import require_spark

    if console and to is not None:
        raise Failure("--console and --to exclude each other", exit_code=ExitCode.USAGE)
    pipeline = find_pipeline(name)
    options = parse_assignments(option or (), "--option")
    spark_conf = parse_assignments(conf or (), "--conf")
    if source is SourceFormat.OTTLA:
        check_options(options)
    require_spark()
    if not options:
        check_topic(topic or pipeline.topic, bootstrap)

    from ottla.cli.pipeline.run import run_pipeline
    from ottla.cli.pipeline.spark_session import SparkSettings
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
    run_pipeline(pipeline, streams, SparkSettings(master, archive, spark_conf))


@app.command()
def generate(
    name: PipelineName,
    *,
    records: Annotated[
        int, typer.Option("--records", "-n", min=1, metavar="N", help="The number of records.")
    ] = 60_000,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**64 - 1, metavar="N", help="The seed that decides the records."),
    ] = 1,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=1_000_000,
            metavar="N",
            help="Send N records per second in real time, instead of past ones at once.",
        ),
    ] = None,
    topic: TopicOption = None,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            metavar="N",
            help="The number of partitions of a new topic.",
        ),
    ] = 4,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Send realistic records to a pipeline's topic, which is created if it is missing."""
    from ottla.cli.pipeline.arguments import find_pipeline
    from ottla.cli.pipeline.generate import GenerateOptions, send_generated
    from ottla.cli.shared.connect import run_with_cluster

    pipeline = find_pipeline(name)
    options = GenerateOptions(
        pipeline=pipeline,
        topic=topic or pipeline.topic,
        partitions=partitions,
        records=records,
        seed=seed,
        rate=rate,
    )
    run_with_cluster(bootstrap, timeout, lambda router: send_generated(router, options))


@app.command()
def pack(
    path: Annotated[
        str, typer.Argument(metavar="FILE", help="The archive to write.")
    ] = "ottla-spark.zip",
    *,
    arrow: Annotated[
        bool, typer.Option("--arrow", help="Include Arrow: then nodes need only Python.")
    ] = False,
) -> None:
    """Write an archive of ottla and its dependencies, for Spark nodes without them."""
    from ottla.cli.shared.output import say
    from ottla.cli.shared.spark_required import require_spark

    require_spark()

    from ottla.spark.packing import is_compiled
    from ottla.spark.packing import pack as write_archive

    packed = write_archive(path, with_arrow=arrow)
    kind = "machine code" if is_compiled() else "interpreted native code"
    say(f"packed {packed.files} files with {kind}, {packed.bytes / 1e6:.1f} MB")
    typer.echo(packed.path)
