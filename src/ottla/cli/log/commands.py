"""The arguments of `ottla log …`. Each command imports its implementation when it runs."""

from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import Yes

app = typer.Typer(
    help="Dump, verify and adopt log directories, while no broker uses them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

# The cell of a row that names the file.
FOUND_IN = "file"


@app.command()
def dump(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="A segment file (.log .index .timeindex .txnindex .snapshot), a"
            " leader-epoch-checkpoint, a partition directory or a log directory.",
        ),
    ],
    *,
    records: Annotated[bool, typer.Option("--records", help="Show each batch's records.")] = False,
    first: Annotated[
        int, typer.Option("--from", min=0, metavar="OFFSET", help="The first offset to show.")
    ] = 0,
    last: Annotated[
        int | None, typer.Option("--to", min=0, metavar="OFFSET", help="The last offset to show.")
    ] = None,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Show batches, records and index entries as they are on disk."""
    from ottla.cli.log.dump import Selection
    from ottla.cli.log.dump import dump as run
    from ottla.protocol.primitives import OFFSET_MAX
    from ottla.seams.files import RealFiles

    selection = Selection(first, OFFSET_MAX if last is None else last, records)
    writer = listing_writer(output, named=None, name_cell=FOUND_IN)
    raise typer.Exit(run(RealFiles(), paths, selection, writer))


@app.command()
def verify(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A partition directory or a log directory.")
    ],
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Show the steps of a repair.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Execute the steps of --repair.")] = False,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Read all batches and indexes, and report damage."""
    from ottla.cli.log.verify.run import verify as run
    from ottla.seams.files import RealFiles

    if yes and not repair:
        raise typer.BadParameter("requires --repair", param_hint="--yes")
    writer = listing_writer(output, named="damage", name_cell=FOUND_IN)
    raise typer.Exit(run(RealFiles(), path, writer, wants_repair=repair, may_act=yes))


@app.command()
def adopt(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A log directory of a stopped Kafka broker.")
    ],
    *,
    data: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Ottla's data directory. If it is SOURCE itself, no file is copied.",
        ),
    ],
    yes: Yes = False,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Take over the topics of a log directory that Kafka wrote."""
    from ottla.cli.log.adopt.run import AdoptionSeams
    from ottla.cli.log.adopt.run import adopt as run
    from ottla.seams.clock import RealClock
    from ottla.seams.entropy import RealEntropy
    from ottla.seams.files import RealFiles

    seams = AdoptionSeams(RealFiles(), RealClock(), RealEntropy())
    writer = listing_writer(output, named="topic", name_cell="topic")
    raise typer.Exit(run(seams, source, data, writer, may_act=yes))
