"""The arguments of `ottla group …`. Each command imports its implementation when it runs."""

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
    help="List, describe, reset and delete consumer groups.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NAMED = "group"
Names = Annotated[list[str], typer.Argument(metavar="GROUP", help="A group's name.")]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic; may be repeated."),
]


@app.command("list")
def list_(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Only groups in this state, such as Empty; repeatable."
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """List the groups of all brokers."""
    from ottla.cli.group.show import check_states, list_groups
    from ottla.cli.shared.connect import run_with_cluster

    check_states(state or ())
    writer = listing_writer(output, named=NAMED)
    run_with_cluster(bootstrap, timeout, lambda router: list_groups(router, state or (), writer))


@app.command()
def describe(
    names: Names,
    *,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Show groups: members, their partitions, and the lag in records and in seconds."""
    from ottla.cli.group.show import describe_groups
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.seams.clock import RealClock

    writer = listing_writer(output, named=NAMED)
    run_with_cluster(
        bootstrap,
        timeout,
        lambda router: describe_groups(router, names, writer, now_ms=RealClock().wall_ms()),
    )


@app.command()
def reset(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="A group's name.")],
    *,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="POSITION",
            help="The new position: earliest, latest, an offset, a time (2026-01-31T18:00) or how"
            " long ago (15m, 2h, 3d).",
        ),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(metavar="N", help="Move by N records forward, or back if N is negative."),
    ] = None,
    topic: Topics = None,
    partition: Partitions = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Set a group's offsets for all or some of its topics. Shows the plan; acts with --yes."""
    from ottla.cli.group.reset import ResetOptions, parse_target, reset_group
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.seams.clock import RealClock

    target = parse_target(to, shift, RealClock().wall_ms())
    options = ResetOptions(group=name, target=target, topics=topic or (), partitions=partition)
    writer = listing_writer(output, named="partition")
    run_with_cluster(
        bootstrap, timeout, lambda router: reset_group(router, options, writer, may_act=yes)
    )


@app.command()
def delete(
    names: Names,
    *,
    topic: Topics = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Delete groups, or their offsets of some topics. Shows the plan; acts with --yes."""
    from ottla.cli.group.delete import delete_groups
    from ottla.cli.shared.connect import run_with_cluster

    writer = listing_writer(output, named=NAMED)
    unique = list(dict.fromkeys(names))
    run_with_cluster(
        bootstrap,
        timeout,
        lambda router: delete_groups(router, unique, topic or (), writer, may_act=yes),
    )
