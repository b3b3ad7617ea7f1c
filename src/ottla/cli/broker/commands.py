"""The options of `ottla serve`, `up` and `down`. Each imports its implementation when it runs."""

import os
import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.address import PORT_MAX
from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import DATA_DEFAULT, Yes

if TYPE_CHECKING:
    from ottla.cli.broker.invocation import BrokerInvocation, BrokerMode
    from ottla.cli.broker.settings import BrokerFlags
    from ottla.cli.shared.failure import Failure

# One process each on this machine.
BROKERS_MAX = 100
ZOOKEEPER_SERVERS_MAX = 7

Data = Annotated[
    str | None,
    typer.Option(metavar="DIR", help=f"The data directory; by default {DATA_DEFAULT}."),
]
Host = Annotated[
    str | None,
    typer.Option(metavar="HOST", help="The address to listen on; by default this machine only."),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=PORT_MAX, metavar="N", help="Kafka's port; by default 9092, 0 is any free one."
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=PORT_MAX,
        metavar="N",
        help="The port for metrics; by default 9644, 0 is any free one.",
    ),
]
ZooKeeper = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT[,…][/CHROOT]",
        help="The servers of the cluster's ZooKeeper; without them the broker is alone.",
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting; may be repeated."),
]
ConfigFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="A TOML file of settings with quoted names.")
]


def serve(
    context: typer.Context,
    *,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    metrics_port: MetricsPort = None,
    zookeeper: ZooKeeper = None,
    set_: Sets = None,
    config: ConfigFile = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=BROKERS_MAX,
            metavar="N",
            help="Run N brokers of a cluster: the ids, the ports and DIR/broker-<id> count up.",
        ),
    ] = None,
) -> None:
    """Run a broker until a signal stops it. Prints one line when it is ready."""
    from ottla.cli.broker.invocation import BrokerMode
    from ottla.cli.broker.process import exec_broker

    flags = _flags(data, host, port, metrics_port, set_, config, zookeeper)
    invocation = _invocation(context, BrokerMode.SERVE, flags)
    if processes is not None:
        from ottla.cli.broker.settings import ClusterFlags

        cluster = ClusterFlags(brokers=processes)
        invocation = replace(invocation, mode=BrokerMode.SERVE_PROCESSES, cluster=cluster)
    exec_broker(invocation)


def up(
    context: typer.Context,
    *,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    metrics_port: MetricsPort = None,
    set_: Sets = None,
    config: ConfigFile = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once it is up, and leave it running.")
    ] = False,
    brokers: Annotated[
        int,
        typer.Option(
            min=1,
            max=BROKERS_MAX,
            metavar="N",
            help="The number of brokers; with more than one, ZooKeeper servers are started too.",
        ),
    ] = 1,
    zookeeper_servers: Annotated[
        int | None,
        typer.Option(
            min=1, max=ZOOKEEPER_SERVERS_MAX, metavar="N", help="Their number; by default 3."
        ),
    ] = None,
    no_restart: Annotated[
        bool,
        typer.Option(
            "--no-restart", help="Leave a broker or ZooKeeper server down that has ended."
        ),
    ] = False,
) -> None:
    """Run a local system until a signal stops it: one broker, or a cluster with --brokers."""
    from ottla.cli.broker.invocation import BrokerMode
    from ottla.cli.broker.process import exec_broker

    flags = _flags(data, host, port, metrics_port, set_, config)
    if brokers > 1:
        _up_cluster(
            context,
            flags,
            brokers=brokers,
            zookeeper_servers=zookeeper_servers,
            restarts=not no_restart,
            detach=detach,
        )
        return
    if zookeeper_servers is not None or no_restart:
        raise _needs_brokers("--no-restart" if no_restart else "--zookeeper-servers")
    if not detach:
        exec_broker(_invocation(context, BrokerMode.UP, flags))
    from ottla.cli.broker.up import start_detached

    start_detached(_invocation(context, BrokerMode.UP_DETACHED, flags))


def down(
    *,
    data: Annotated[str, typer.Option(metavar="DIR", help="Its data directory.")] = DATA_DEFAULT,
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Also remove all its data; acts with --yes.")
    ] = False,
    yes: Yes = False,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Stop the system that `ottla up` started, and wait until it has ended."""
    from ottla.cli.broker.down import down as run

    run(data, listing_writer(output, named="directory"), wipes=wipe, may_act=yes)


def _up_cluster(
    context: typer.Context,
    flags: "BrokerFlags",
    *,
    brokers: int,
    zookeeper_servers: int | None,
    restarts: bool,
    detach: bool,
) -> None:
    from ottla.cli.broker.invocation import BrokerMode
    from ottla.cli.broker.process import exec_broker
    from ottla.cli.broker.settings import ClusterFlags

    mode = BrokerMode.UP_CLUSTER_DETACHED if detach else BrokerMode.UP_CLUSTER
    cluster = ClusterFlags(brokers=brokers, zookeeper_servers=zookeeper_servers, restarts=restarts)
    invocation = replace(_invocation(context, mode, flags), cluster=cluster)
    if not detach:
        exec_broker(invocation)
    from ottla.cli.cluster.up import start_cluster_detached

    start_cluster_detached(invocation)


def _needs_brokers(flag: str) -> "Failure":
    from ottla.cli.shared.failure import ExitCode, Failure

    return Failure(
        f"{flag} is for a cluster",
        advice="add --brokers 3",
        exit_code=ExitCode.USAGE,
    )


def _flags(
    data: str | None,
    host: str | None,
    port: int | None,
    metrics_port: int | None,
    sets: list[str] | None,
    config: str | None,
    zookeeper: str | None = None,
) -> "BrokerFlags":
    from ottla.cli.broker.settings import BrokerFlags

    return BrokerFlags(
        data=data,
        host=host,
        port=port,
        metrics_port=metrics_port,
        zookeeper=zookeeper,
        sets=tuple(sets or ()),
        config=config,
    )


def _invocation(
    context: typer.Context, mode: "BrokerMode", flags: "BrokerFlags"
) -> "BrokerInvocation":
    from ottla.cli.broker.invocation import BrokerInvocation

    is_debugged = context.find_root().params["debug"]
    return BrokerInvocation(mode=mode, flags=flags, program=_program(), is_debugged=is_debugged)


def _program() -> str:
    """The command that calls this program again from the same directory."""
    called = sys.argv[0]
    if os.path.basename(called) != "ottla":
        return f"{sys.executable} -m ottla.cli"
    found = shutil.which("ottla")
    return "ottla" if found and os.path.samefile(found, called) else called
