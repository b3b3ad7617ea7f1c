"""All commands of `ottla`, declared with typer.

This module and `<group>/commands.py` only declare arguments and options. Commands import their
implementation when they run.
"""

import errno
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ottla import __version__
from ottla.cli.broker import commands as broker_commands
from ottla.cli.cluster import commands as cluster_commands
from ottla.cli.doctor import commands as doctor_commands
from ottla.cli.group import commands as group_commands
from ottla.cli.log import commands as log_commands
from ottla.cli.pipeline import commands as pipeline_commands
from ottla.cli.records import commands as records_commands
from ottla.cli.shared.failure import failure_of
from ottla.cli.sql import commands as sql_commands
from ottla.cli.topic import commands as topic_commands
from ottla.cli.txn import commands as txn_commands


class CommandGroup(TyperGroup):
    """Turns an exception into a message and an exit code; `--debug` adds the traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except Exception as error:
            # The reader of our output has closed the pipe, which is not an error.
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            if ctx.params["debug"]:
                traceback.print_exception(error)
            failure = failure_of(error)
            for line in failure.lines:
                typer.echo(line, err=True)
            raise typer.Exit(failure.exit_code) from error


app = typer.Typer(
    cls=CommandGroup,
    help="A distributed commit log that speaks Kafka's wire protocol.",
    no_args_is_help=True,
    add_completion=False,
    # Plain text help: the import of rich is slow.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(broker_commands.up)
app.command()(broker_commands.down)
app.command()(broker_commands.serve)
app.command()(records_commands.produce)
app.command()(records_commands.consume)
app.command()(sql_commands.sql)
app.command()(doctor_commands.doctor)
app.add_typer(topic_commands.app, name="topic")
app.add_typer(group_commands.app, name="group")
app.add_typer(txn_commands.app, name="txn")
app.add_typer(cluster_commands.app, name="cluster")
app.add_typer(log_commands.app, name="log")
app.add_typer(pipeline_commands.app, name="pipeline")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ottla {__version__}")
        raise typer.Exit


@app.callback()
def ottla(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print a traceback when a command fails.")
    ] = False,
) -> None:
    pass
