"""Options shared by several commands. Every command imports this module, so it stays light."""

from typing import Annotated

import typer

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
TIMEOUT_S_DEFAULT = 15.0
DATA_DEFAULT = "./ottla-data"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,…",
        envvar=BOOTSTRAP_VARIABLE,
        show_envvar=False,
        help="The addresses of one or more brokers.",
    ),
]
TimeoutS = Annotated[
    float,
    typer.Option(
        "--timeout", min=0.1, max=3600, metavar="SECONDS", help="How long to wait for a response."
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Execute the plan, which is only shown without it.")
]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", min=0, metavar="N", help="Only this partition; may be repeated."),
]
Throttle = Annotated[
    int | None,
    typer.Option(
        "--throttle",
        min=1,
        metavar="BYTES_PER_S",
        help="Let each broker copy at most this; removed when it is done.",
    ),
]
