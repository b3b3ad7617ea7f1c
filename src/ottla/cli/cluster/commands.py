"""The arguments of `ottla cluster …` and `ottla broker …`. Each command imports its implementation
when it runs.
"""

from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import (
    BOOTSTRAP_DEFAULT,
    DATA_DEFAULT,
    TIMEOUT_S_DEFAULT,
    Bootstrap,
    Throttle,
    TimeoutS,
    Yes,
)

cluster_app = typer.Typer(
    help="Describe a cluster, or make one of a broker.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
broker_app = typer.Typer(
    help="List, describe and drain the brokers of a cluster.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

BrokerId = Annotated[int, typer.Argument(metavar="ID", min=0, help="A broker's id.")]


@cluster_app.command("describe")
def describe_cluster(
    *,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Show the controller, the brokers, and how many partitions have a problem."""
    from ottla.cli.cluster.describe import describe_cluster as run
    from ottla.cli.shared.connect import run_with_cluster

    writer = listing_writer(output, named="cluster", name_cell="cluster_id")
    run_with_cluster(bootstrap, timeout, lambda router: run(router, writer))


@cluster_app.command()
def promote(
    *,
    zookeeper: Annotated[
        str,
        typer.Option(
            "--zookeeper",
            metavar="HOST:PORT[,…][/CHROOT]",
            help="The servers of ZooKeeper, and a chroot that has no cluster.",
        ),
    ],
    data: Annotated[
        str, typer.Option(metavar="DIR", help="The data directory of the broker, which is stopped.")
    ] = DATA_DEFAULT,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting; may be repeated."),
    ] = None,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="A TOML file of settings with quoted names.")
    ] = None,
    yes: Yes = False,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Move the metadata of a broker that was alone to ZooKeeper. Other brokers can join it then."""
    from ottla.cli.cluster.promote import promote as run

    run(
        data,
        zookeeper,
        sets=set_ or (),
        config=config,
        writer=listing_writer(output, named="promotion"),
        may_act=yes,
    )


@broker_app.command("list")
def list_(
    *,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """List brokers: those that are up, and those that have replicas and are down."""
    from ottla.cli.cluster.describe import list_brokers
    from ottla.cli.shared.connect import run_with_cluster

    writer = listing_writer(output, named="broker", name_cell="id")
    run_with_cluster(bootstrap, timeout, lambda router: list_brokers(router, writer))


@broker_app.command()
def describe(
    broker_id: BrokerId,
    *,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Show a broker, its log directories, and its partitions out of sync or led by another one."""
    from ottla.cli.cluster.describe import describe_broker
    from ottla.cli.shared.connect import run_with_cluster

    writer = listing_writer(output, named="broker", name_cell="id")
    run_with_cluster(bootstrap, timeout, lambda router: describe_broker(router, broker_id, writer))


@broker_app.command()
def drain(
    broker_id: BrokerId,
    *,
    throttle: Throttle = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take the broker's running moves back instead.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Move all replicas of a broker to others, so that it can be removed. Shows the plan; acts
    with --yes, and waits until it is done. -o json is a plan for Kafka's own tool."""
    from ottla.cli.cluster.drain import cancel_drain, drain_broker
    from ottla.cli.shared.connect import run_with_cluster

    if cancel:
        writer = listing_writer(output, named="partition")
        run_with_cluster(
            bootstrap,
            timeout,
            lambda router: cancel_drain(router, broker_id, writer, may_act=yes),
        )
    else:
        run_with_cluster(
            bootstrap,
            timeout,
            lambda router: drain_broker(router, broker_id, output, throttle, may_act=yes),
        )
