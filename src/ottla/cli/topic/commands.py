"""The arguments of `ottla topic …`. Each command imports its implementation when it runs."""

from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_S_DEFAULT,
    Bootstrap,
    Partitions,
    TimeoutS,
    Yes,
)

app = typer.Typer(
    help="List, describe, create, delete and trim topics, and move their replicas.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NAMED = "topic"
Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="A topic's name.")]


@app.command("list")
def list_(
    *,
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """List topics."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.topic.show import list_topics

    writer = listing_writer(output, named=NAMED)
    run_with_cluster(
        bootstrap, timeout, lambda router: list_topics(router, writer, with_internal=internal)
    )


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC", help="A topic's name; all topics with --under-replicated or others."
        ),
    ] = None,
    *,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated", help="Only partitions with a replica out of sync."),
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions without a leader.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Show topics: partitions, leaders, replicas, offsets, sizes and settings."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.topic.show import PartitionFilter, describe_partitions, describe_topics

    wanted = PartitionFilter(under_replicated, unavailable)
    topics = names or []
    if not topics and not wanted.is_given:
        raise typer.BadParameter(
            "name a topic, or ask for --under-replicated or --unavailable ones",
            param_hint="TOPIC",
        )
    writer = listing_writer(output, named=NAMED)
    if wanted.is_given:
        run_with_cluster(
            bootstrap, timeout, lambda router: describe_partitions(router, topics, wanted, writer)
        )
    else:
        run_with_cluster(bootstrap, timeout, lambda router: describe_topics(router, topics, writer))


@app.command()
def create(
    names: Names,
    *,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, metavar="N", help="The number of partitions."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=2**15 - 1,
            metavar="N",
            help="The number of replicas.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting; may be repeated."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Accept topics that exist already.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Create topics. The broker has defaults for all options."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.shared.name_value_pairs import parse_assignments
    from ottla.cli.topic.change import create_topics
    from ottla.client.admin.cluster import BROKER_DEFAULT, NewTopic

    configs = parse_assignments(config or (), "--config")
    topics = [
        NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, configs)
        for name in dict.fromkeys(names)
    ]
    run_with_cluster(
        bootstrap, timeout, lambda router: create_topics(router, topics, may_exist=if_not_exists)
    )


@app.command()
def grow(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic's name.")],
    *,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", "-p", min=1, metavar="N", help="The new total number of partitions."
        ),
    ],
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Add partitions to a topic. This is irreversible, and keys move to other partitions."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.topic.change import grow_topic

    writer = listing_writer(output, named=NAMED)
    run_with_cluster(
        bootstrap,
        timeout,
        lambda router: grow_topic(router, name, partitions, writer, may_act=yes),
    )


@app.command()
def delete(
    names: Names,
    *,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Delete topics with all their records. Shows the plan; acts with --yes."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.topic.change import delete_topics

    writer = listing_writer(output, named=NAMED)
    unique = list(dict.fromkeys(names))
    run_with_cluster(
        bootstrap, timeout, lambda router: delete_topics(router, unique, writer, may_act=yes)
    )


@app.command()
def trim(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic's name.")],
    *,
    before: Annotated[
        str,
        typer.Option(
            metavar="POSITION",
            help="Delete the records before this: end, an offset, a time (2026-01-31T18:00) or how"
            " long ago (15m, 2h, 3d).",
        ),
    ],
    partition: Partitions = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Delete a topic's oldest records. Shows the plan; acts with --yes."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.shared.offsets_spec import parse_position
    from ottla.cli.topic.change import trim_topic
    from ottla.seams.clock import RealClock

    spec = parse_position(before, "--before", RealClock().wall_ms())
    writer = listing_writer(output, named=NAMED)
    run_with_cluster(
        bootstrap,
        timeout,
        lambda router: trim_topic(router, name, partition, spec, writer, may_act=yes),
    )
