"""What `ottla topic …` takes. Each command imports its work when it runs."""

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
    help="List, describe, create, delete and trim topics.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NAMED = "topic"
Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="A topic's name.")]


@app.command("list")
def list_(
    *,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also the topics of the system itself.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """List topics."""
    from ottla.cli.shared.connect import reach
    from ottla.cli.topic.show import list_topics

    writer = listing_writer(output, named=NAMED)
    reach(bootstrap, timeout, lambda router: list_topics(router, writer, with_internal=internal))


@app.command()
def describe(
    names: Names,
    *,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Show topics: partitions, leaders, copies, offsets, sizes, and what was set."""
    from ottla.cli.shared.connect import reach
    from ottla.cli.topic.show import describe_topics

    writer = listing_writer(output, named=NAMED)
    reach(bootstrap, timeout, lambda router: describe_topics(router, names, writer))


@app.command()
def create(
    names: Names,
    *,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, metavar="N", help="How many partitions."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=2**15 - 1,
            metavar="N",
            help="How many copies.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting; may be repeated."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that is there already is no error.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
) -> None:
    """Create topics. What is not given is the broker's default."""
    from ottla.cli.shared.connect import reach
    from ottla.cli.shared.name_value_pairs import parse_assignments
    from ottla.cli.topic.change import create_topics
    from ottla.client.admin.cluster import BROKER_DEFAULT, NewTopic

    configs = parse_assignments(config or (), "--config")
    topics = [
        NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, configs)
        for name in dict.fromkeys(names)
    ]
    reach(bootstrap, timeout, lambda router: create_topics(router, topics, may_exist=if_not_exists))


@app.command()
def grow(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic's name.")],
    *,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", "-p", min=1, metavar="N", help="How many there are to be in all."
        ),
    ],
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Give a topic more partitions. It cannot be taken back, and keys move to other partitions."""
    from ottla.cli.shared.connect import reach
    from ottla.cli.topic.change import grow_topic

    writer = listing_writer(output, named=NAMED)
    reach(
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
    """Delete topics with all their records. Shows what would be deleted; acts with --yes."""
    from ottla.cli.shared.connect import reach
    from ottla.cli.topic.change import delete_topics

    writer = listing_writer(output, named=NAMED)
    unique = list(dict.fromkeys(names))
    reach(bootstrap, timeout, lambda router: delete_topics(router, unique, writer, may_act=yes))


@app.command()
def trim(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic's name.")],
    *,
    before: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="Delete what lies before: end, an offset, a time (2026-01-31T18:00) or how long"
            " ago (15m, 2h, 3d).",
        ),
    ],
    partition: Partitions = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Delete a topic's oldest records. Shows what would be deleted; acts with --yes."""
    from ottla.cli.shared.connect import reach
    from ottla.cli.shared.offsets_spec import parse_place
    from ottla.cli.topic.change import trim_topic
    from ottla.seams.clock import RealClock

    place = parse_place(before, "--before", RealClock().wall_ms())
    writer = listing_writer(output, named=NAMED)
    reach(
        bootstrap,
        timeout,
        lambda router: trim_topic(router, name, partition, place, writer, may_act=yes),
    )
