"""The arguments of `ottla cluster …`. Each command imports its implementation when it runs."""

from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import DATA_DEFAULT, Yes

app = typer.Typer(
    help="Make a cluster of a broker.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def cluster() -> None:
    """Keeps `promote` a subcommand while it is the only one."""


@app.command()
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
