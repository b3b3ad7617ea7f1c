"""The process that a broker runs in. It imports what a broker needs, and nothing of a command's.

The command line checks what it was given and then becomes this process: same id, same streams.
Where it needed nothing to check it (see `serve_parser`), it is this process from the start.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from ottla.cli.broker.settings import BrokerFlags
from ottla.cli.shared.failure import ExitCode, failure_of


class Mode(StrEnum):
    """Which command it carries out."""

    SERVE = "serve"
    UP = "up"
    # `ottla up --detach`: ready in one line, as `serve` says it.
    UP_BESIDE = "up-beside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the process is to do."""

    mode: Mode
    flags: BrokerFlags
    # How the user called us, to show how to call us again.
    program: str
    # Whether a failure shows its traceback.
    is_debugged: bool = False

    @property
    def command(self) -> list[str]:
        """What starts such a process, and tells in a list of processes what it is."""
        given = {
            "data": self.flags.data,
            "host": self.flags.host,
            "port": self.flags.port,
            "metrics-port": self.flags.metrics_port,
            "config": self.flags.config,
            "program": self.program,
            "debug": "yes" if self.is_debugged else None,
        }
        return [
            sys.executable,
            # Without it a file of the current directory could pass for a module that we import.
            "-P",
            "-m",
            __name__,
            self.mode,
            *(f"{name}={value}" for name, value in given.items() if value is not None),
            *(f"set={text}" for text in self.flags.sets),
        ]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "Order":
        """The order that has such a command: these are what follows the module's name."""
        pairs = [text.partition("=")[::2] for text in arguments[1:]]
        given = dict(pairs)
        ports = {name: int(given[name]) for name in ("port", "metrics-port") if name in given}
        flags = BrokerFlags(
            data=given.get("data"),
            host=given.get("host"),
            port=ports.get("port"),
            metrics_port=ports.get("metrics-port"),
            config=given.get("config"),
            sets=tuple(value for name, value in pairs if name == "set"),
        )
        return cls(
            mode=Mode(arguments[0]),
            flags=flags,
            program=given["program"],
            is_debugged="debug" in given,
        )


def become(order: Order) -> NoReturn:
    """This process is a broker's from here on."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, order.command)  # noqa: S606 - our own interpreter and module


def carry_out(order: Order) -> None:
    """In this process. Ends it with an exit code, and words, if that fails."""
    try:
        _run(order)
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    except Exception as error:
        if order.is_debugged:
            traceback.print_exception(error)
        failure = failure_of(error)
        print(*failure.lines, sep="\n", file=sys.stderr)
        raise SystemExit(failure.exit_code) from error


def _run(order: Order) -> None:
    if order.mode is Mode.UP:
        from ottla.cli.broker.up import run_here

        run_here(order.flags, order.program)
    else:
        from ottla.cli.broker.serve import serve

        serve(order.flags, is_up=order.mode is Mode.UP_BESIDE)


if __name__ == "__main__":
    carry_out(Order.parse(sys.argv[1:]))
