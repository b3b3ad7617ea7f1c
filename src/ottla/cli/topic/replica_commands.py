"""The arguments of `ottla topic replicate`, `reassign` and `elect`. Each command imports its
implementation when it runs.
"""

from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_S_DEFAULT,
    Bootstrap,
    Throttle,
    TimeoutS,
    Yes,
)

NAMED = "partition"
Names = Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="A topic's name.")]
All = Annotated[bool, typer.Option("--all", help="All topics, internal ones included.")]


def replicate(
    names: Names = None,
    *,
    factor: Annotated[
        int,
        typer.Option("--factor", min=1, max=2**15 - 1, metavar="N", help="Replicas per partition."),
    ],
    all_: All = False,
    throttle: Throttle = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Change the replication factor of topics. Shows the plan; acts with --yes, and waits until it
    is done. -o json is a plan for Kafka's own tool."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.topic.replicate import replicate_topics

    chosen = _chosen(names, all_)
    run_with_cluster(
        bootstrap,
        timeout,
        lambda router: replicate_topics(router, chosen, factor, output, throttle, may_act=yes),
    )


def reassign(
    names: Names = None,
    *,
    brokers: Annotated[
        str | None,
        typer.Option(metavar="ID,…", help="Spread them over these brokers; by default over all."),
    ] = None,
    all_: All = False,
    plan: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A plan, as kafka-reassign-partitions takes it."),
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Show which replicas are moving.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take running moves back, of all topics or of these.")
    ] = False,
    throttle: Throttle = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Spread the replicas of topics over brokers, or move them as a plan says. Shows the plan; acts
    with --yes, and waits until it is done. -o json is a plan for Kafka's own tool."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.topic import reassign as run

    _check_alone(
        {"--plan": plan is not None, "--status": status, "--cancel": cancel},
        {"--brokers": brokers is not None, "--all": all_},
    )
    if status or cancel:
        work = run.reassignment_status if status else run.cancel_topics
        writer = listing_writer(output, named=NAMED)
        run_with_cluster(
            bootstrap,
            timeout,
            lambda router: work(router, names or [], writer, may_act=yes),
        )
    elif plan is not None:
        if names:
            raise typer.BadParameter("--plan names the topics itself", param_hint="TOPIC")
        from ottla.cli.reassignment.plan_file import read_plan

        targets = read_plan(plan)
        run_with_cluster(
            bootstrap,
            timeout,
            lambda router: run.reassign_by_plan(router, targets, output, throttle, may_act=yes),
        )
    else:
        from ottla.cli.reassignment.survey import parse_brokers

        chosen = _chosen(names, all_)
        over = None if brokers is None else parse_brokers(brokers, "--brokers")
        run_with_cluster(
            bootstrap,
            timeout,
            lambda router: run.spread_topics(router, chosen, over, output, throttle, may_act=yes),
        )


def elect(
    names: Names = None,
    *,
    all_: All = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Let any replica lead where nobody does. Records may be lost; acts with --yes.",
        ),
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Make the preferred leaders lead: the first replica of each partition."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.topic.elect import elect_preferred, elect_unclean

    chosen = _chosen(names, all_)
    writer = listing_writer(output, named=NAMED)
    if unclean:
        run_with_cluster(
            bootstrap, timeout, lambda router: elect_unclean(router, chosen, writer, may_act=yes)
        )
    else:
        run_with_cluster(bootstrap, timeout, lambda router: elect_preferred(router, chosen, writer))


def _chosen(names: list[str] | None, all_: bool) -> list[str] | None:
    """The named topics, or None for all of them."""
    if all_ == bool(names):
        raise typer.BadParameter("name topics, or give --all", param_hint="TOPIC")
    return None if all_ else names


def _check_alone(modes: dict[str, bool], others: dict[str, bool]) -> None:
    """At most one mode, and none together with the others."""
    given = [name for name, is_given in modes.items() if is_given]
    if given:
        given += [name for name, is_given in others.items() if is_given]
    if len(given) > 1:
        raise typer.BadParameter(f"{given[1]} does not go with {given[0]}", param_hint=given[0])
