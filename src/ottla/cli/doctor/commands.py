"""What `ottla doctor` takes. It imports its work when it runs."""

from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import BOOTSTRAP_DEFAULT, BOOTSTRAP_VARIABLE, DATA_DEFAULT, TimeoutS


def doctor(
    *,
    data: Annotated[
        str, typer.Option(metavar="DIR", help="The data directory whose disk is looked at.")
    ] = DATA_DEFAULT,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT,…",
            envvar=BOOTSTRAP_VARIABLE,
            show_envvar=False,
            help=f"A broker that must answer; by default one at {BOOTSTRAP_DEFAULT} may.",
        ),
    ] = None,
    timeout: TimeoutS = 5.0,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Check this machine and a broker. Ends with 6 if something does not work."""
    from ottla.cli.doctor.run import examine

    writer = listing_writer(output, named="check")
    raise typer.Exit(examine(data, bootstrap, timeout, writer))
