"""The options of `ottla doctor`. It imports its implementation when it runs."""

from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import BOOTSTRAP_DEFAULT, BOOTSTRAP_VARIABLE, DATA_DEFAULT, TimeoutS


def doctor(
    *,
    data: Annotated[
        str, typer.Option(metavar="DIR", help="The data directory whose disk is checked.")
    ] = DATA_DEFAULT,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT,…",
            envvar=BOOTSTRAP_VARIABLE,
            show_envvar=False,
            help=f"A broker that must respond; the default, {BOOTSTRAP_DEFAULT}, is optional.",
        ),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option(
            "--health",
            metavar="HOST:PORT,…",
            help="Metrics ports of brokers, which must be ready; by default those of a cluster"
            " that `ottla up --brokers` runs in DIR.",
        ),
    ] = None,
    timeout: TimeoutS = 5.0,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Check this machine, and a broker or a cluster. Exits with 6 if a check fails."""
    from ottla.cli.doctor.run import run_checks

    writer = listing_writer(output, named="check")
    raise typer.Exit(run_checks(data, bootstrap, health, timeout, writer))
