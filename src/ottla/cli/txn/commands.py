"""The arguments of `ottla txn …`. Each command imports its implementation when it runs."""

from typing import Annotated

import typer

from ottla.cli.shared.listing import Listing, ListingFormat, listing_writer
from ottla.cli.shared.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_S_DEFAULT,
    Bootstrap,
    TimeoutS,
    Yes,
)

app = typer.Typer(
    help="List, describe and abort transactions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NAMED = "transaction"
# The default of transaction.max.timeout.ms: no client's transaction may be open for longer.
OLDER_THAN_DEFAULT = "15m"


@app.command("list")
def list_(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Only this state, such as Ongoing; repeatable."
        ),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", min=0, metavar="N", help="Only this producer; repeatable."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Only transactions open for longer (15m, 2h, 3d)."),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", help="Only transactional ids that this RE2 expression matches."
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """List the transactional ids of all coordinators, with their states."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.txn.show import list_transactions, parse_filter

    wanted = parse_filter(state or (), producer_id or (), older_than, pattern)
    writer = listing_writer(output, named=NAMED)
    run_with_cluster(bootstrap, timeout, lambda router: list_transactions(router, wanted, writer))


@app.command()
def describe(
    names: Annotated[list[str], typer.Argument(metavar="ID", help="A transactional id.")],
    *,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Show transactional ids: state, producer, timeout, and the partitions of the transaction."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.txn.show import describe_transactions
    from ottla.seams.clock import RealClock

    writer = listing_writer(output, named=NAMED)
    run_with_cluster(
        bootstrap,
        timeout,
        lambda router: describe_transactions(router, names, writer, now_ms=RealClock().wall_ms()),
    )


@app.command()
def producers(
    partition: Annotated[
        str,
        typer.Argument(metavar="TOPIC[:PARTITION]", help="A partition, or all of a topic."),
    ],
    *,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Show the producers that the leaders of partitions know, and their open transactions."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.txn.partition_name import parse_partition
    from ottla.cli.txn.show import show_producers
    from ottla.seams.clock import RealClock

    asked = parse_partition(partition)
    writer = listing_writer(output, named="producer")
    run_with_cluster(
        bootstrap,
        timeout,
        lambda router: show_producers(router, asked, writer, now_ms=RealClock().wall_ms()),
    )


@app.command("find-hanging")
def find_hanging(
    *,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic.")
    ] = None,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Only transactions without a record for longer; above every client's"
            " transaction.timeout.ms.",
        ),
    ] = OLDER_THAN_DEFAULT,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Find transactions that are open in a partition and that no coordinator will end."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.shared.durations import parse_duration
    from ottla.cli.txn.hanging import find_hanging_transactions
    from ottla.seams.clock import RealClock

    older_than_ms = parse_duration(older_than, "--older-than")
    writer = listing_writer(output, named=NAMED)
    run_with_cluster(
        bootstrap,
        timeout,
        lambda router: find_hanging_transactions(
            router, topic, writer, older_than_ms=older_than_ms, now_ms=RealClock().wall_ms()
        ),
    )


@app.command()
def abort(
    partition: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC:PARTITION]", help="The partition of a hanging transaction."),
    ] = None,
    *,
    start_offset: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The transaction's first offset.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The transaction's producer.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The epoch of that producer.")
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Abort the open transaction of this id instead."),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: TimeoutS = TIMEOUT_S_DEFAULT,
    output: Listing = ListingFormat.TABLE,
) -> None:
    """Abort a hanging transaction, or the open one of an id. Shows the plan; acts with --yes."""
    from ottla.cli.shared.connect import run_with_cluster
    from ottla.cli.txn.abort import HangingTarget, abort_by_id, abort_hanging, parse_target
    from ottla.client.routing.router import Router
    from ottla.seams.clock import RealClock

    target = parse_target(partition, id_, start_offset, producer_id, producer_epoch)
    writer = listing_writer(output, named=NAMED)

    async def run(router: Router) -> None:
        now_ms = RealClock().wall_ms()
        if isinstance(target, HangingTarget):
            await abort_hanging(router, target, writer, may_act=yes, now_ms=now_ms)
        else:
            await abort_by_id(router, target, writer, may_act=yes, now_ms=now_ms)

    run_with_cluster(bootstrap, timeout, run)
