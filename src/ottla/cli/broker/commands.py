"""What `ottla serve`, `up` and `down` take. Each imports its work when it runs."""

import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.address import PORT_MAX
from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import DATA_DEFAULT, Yes

if TYPE_CHECKING:
    from ottla.cli.broker.process import Mode, Order
    from ottla.cli.broker.settings import BrokerFlags


Data = Annotated[
    str | None,
    typer.Option(metavar="DIR", help=f"Where the logs are; by default {DATA_DEFAULT}."),
]
Host = Annotated[
    str | None,
    typer.Option(metavar="HOST", help="The address to listen at; by default this machine only."),
]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=PORT_MAX, metavar="N", help="Kafka's port; by default 9092, 0: any."),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0, max=PORT_MAX, metavar="N", help="The port for metrics; by default 9644, 0: any."
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting; may be repeated."),
]
Config = Annotated[
    str | None, typer.Option(metavar="FILE", help="A TOML file with settings, names in quotes.")
]


def serve(
    context: typer.Context,
    *,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    metrics_port: MetricsPort = None,
    set_: Sets = None,
    config: Config = None,
) -> None:
    """Run one broker until it is told to stop. Prints one line when it is ready."""
    from ottla.cli.broker.process import Mode, become

    flags = _flags(data, host, port, metrics_port, set_, config)
    become(_order(context, Mode.SERVE, flags))


def up(
    context: typer.Context,
    *,
    data: Data = None,
    host: Host = None,
    port: Port = None,
    metrics_port: MetricsPort = None,
    set_: Sets = None,
    config: Config = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return once it is up; it goes on beside.")
    ] = False,
) -> None:
    """Run a whole local system until it is told to stop."""
    from ottla.cli.broker.process import Mode, become

    flags = _flags(data, host, port, metrics_port, set_, config)
    if not detach:
        become(_order(context, Mode.UP, flags))
    from ottla.cli.broker.up import start_beside

    start_beside(_order(context, Mode.UP_BESIDE, flags))


def down(
    *,
    data: Annotated[str, typer.Option(metavar="DIR", help="Where its logs are.")] = DATA_DEFAULT,
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Also remove all its data; acts with --yes.")
    ] = False,
    yes: Yes = False,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Stop what `ottla up` began, and wait until it has ended."""
    from ottla.cli.broker.down import down as run

    run(data, listing_writer(output, named="directory"), wipes=wipe, may_act=yes)


def _flags(
    data: str | None,
    host: str | None,
    port: int | None,
    metrics_port: int | None,
    sets: list[str] | None,
    config: str | None,
) -> "BrokerFlags":
    from ottla.cli.broker.settings import BrokerFlags

    return BrokerFlags(
        data=data,
        host=host,
        port=port,
        metrics_port=metrics_port,
        sets=tuple(sets or ()),
        config=config,
    )


def _order(context: typer.Context, mode: "Mode", flags: "BrokerFlags") -> "Order":
    from ottla.cli.broker.process import Order

    is_debugged = context.find_root().params["debug"]
    return Order(mode=mode, flags=flags, program=_program(), is_debugged=is_debugged)


def _program() -> str:
    """How this program can be called again from the same place."""
    called = sys.argv[0]
    if os.path.basename(called) != "ottla":
        return f"{sys.executable} -m ottla.cli"
    found = shutil.which("ottla")
    return "ottla" if found and os.path.samefile(found, called) else called
