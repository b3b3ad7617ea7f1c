"""The process of a broker. It imports only the broker's dependencies, not those of commands.

The command line parses its arguments and then replaces itself with this process, with the same
process id and streams. Plain calls (see `serve_parser`) run it directly.
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


class BrokerMode(StrEnum):
    """The command that the process runs."""

    SERVE = "serve"
    UP = "up"
    # `ottla up --detach`: prints one line when it is ready, as `serve` does.
    UP_DETACHED = "up-detached"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInvocation:
    """A call of the broker process."""

    mode: BrokerMode
    flags: BrokerFlags
    # The user's name for this program, for hints on the next commands.
    program: str
    # Whether a failure prints its traceback.
    is_debugged: bool = False

    @property
    def command(self) -> list[str]:
        """The command that starts the process; readable in a list of processes."""
        given = {
            "data": self.flags.data,
            "host": self.flags.host,
            "port": self.flags.port,
            "metrics-port": self.flags.metrics_port,
            "zookeeper": self.flags.zookeeper,
            "config": self.flags.config,
            "program": self.program,
            "debug": "yes" if self.is_debugged else None,
        }
        return [
            sys.executable,
            # Keeps files in the current directory from shadowing modules that we import.
            "-P",
            "-m",
            __name__,
            self.mode,
            *(f"{name}={value}" for name, value in given.items() if value is not None),
            *(f"set={text}" for text in self.flags.sets),
        ]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "BrokerInvocation":
        """Parses the arguments after the module's name in `command`."""
        pairs = [text.partition("=")[::2] for text in arguments[1:]]
        given = dict(pairs)
        ports = {name: int(given[name]) for name in ("port", "metrics-port") if name in given}
        flags = BrokerFlags(
            data=given.get("data"),
            host=given.get("host"),
            port=ports.get("port"),
            metrics_port=ports.get("metrics-port"),
            zookeeper=given.get("zookeeper"),
            config=given.get("config"),
            sets=tuple(value for name, value in pairs if name == "set"),
        )
        return cls(
            mode=BrokerMode(arguments[0]),
            flags=flags,
            program=given["program"],
            is_debugged="debug" in given,
        )


def exec_broker(invocation: BrokerInvocation) -> NoReturn:
    """Replaces this process with the broker's."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, invocation.command)  # noqa: S606 - our own interpreter and module


def run_invocation(invocation: BrokerInvocation) -> None:
    """Runs a broker in this process. A failure prints a message and exits with its code."""
    try:
        _run(invocation)
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None
    except Exception as error:
        if invocation.is_debugged:
            traceback.print_exception(error)
        failure = failure_of(error)
        print(*failure.lines, sep="\n", file=sys.stderr)
        raise SystemExit(failure.exit_code) from error


def _run(invocation: BrokerInvocation) -> None:
    if invocation.mode is BrokerMode.UP:
        from ottla.cli.broker.up import run_in_foreground

        run_in_foreground(invocation.flags, invocation.program)
    else:
        from ottla.cli.broker.serve import serve

        serve(invocation.flags, is_up=invocation.mode is BrokerMode.UP_DETACHED)


if __name__ == "__main__":
    run_invocation(BrokerInvocation.parse(sys.argv[1:]))
