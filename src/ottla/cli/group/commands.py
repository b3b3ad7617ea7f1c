"""What `ottla group …` takes. Each command imports its work when it runs."""

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
    """List groups, of every broker."""
    from ottla.cli.group.show import check_states, list_groups
    from ottla.cli.shared.connect import reach

    check_states(state or ())
    writer = listing_writer(output, named=NAMED)
    reach(bootstrap, timeout, lambda router: list_groups(router, state or (), writer))


@app.command()
def describe(
    names: Names,
    *,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Show groups: members, who owns what, and how far behind, in records and in seconds."""
    from ottla.cli.group.show import describe_groups
    from ottla.cli.shared.connect import reach
    from ottla.seams.clock import RealClock

    writer = listing_writer(output, named=NAMED)
    reach(
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
            metavar="PLACE",
            help="Where the group is to go on: earliest, latest, an offset, a time"
            " (2026-01-31T18:00) or how long ago (15m, 2h, 3d).",
        ),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(metavar="N", help="By how many records: back if it is below 0, else forward."),
    ] = None,
    topic: Topics = None,
    partition: Partitions = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Set a group's offsets, of all its topics or of some. Shows the plan; acts with --yes."""
    from ottla.cli.group.reset import Wish, parse_goal, reset_group
    from ottla.cli.shared.connect import reach
    from ottla.seams.clock import RealClock

    goal = parse_goal(to, shift, RealClock().wall_ms())
    wish = Wish(group=name, goal=goal, topics=topic or (), partitions=partition)
    writer = listing_writer(output, named="partition")
    reach(bootstrap, timeout, lambda router: reset_group(router, wish, writer, may_act=yes))


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
    """Delete groups, or their offsets of some topics. Shows what would go; acts with --yes."""
    from ottla.cli.group.delete import delete_groups
    from ottla.cli.shared.connect import reach

    writer = listing_writer(output, named=NAMED)
    unique = list(dict.fromkeys(names))
    reach(
        bootstrap,
        timeout,
        lambda router: delete_groups(router, unique, topic or (), writer, may_act=yes),
    )
