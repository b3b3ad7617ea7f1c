"""The process of a broker. It imports only the broker's dependencies, not those of commands.

The command line parses its arguments and then replaces itself with this process, with the same
process id and streams. Plain calls (see `serve_parser`) run it directly.
"""

import os
import sys
import traceback
from typing import NoReturn

from ottla.cli.broker.invocation import BrokerInvocation, BrokerMode
from ottla.cli.shared.failure import ExitCode, failure_of


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
    match invocation.mode:
        case BrokerMode.UP:
            from ottla.cli.broker.up import run_in_foreground

            run_in_foreground(invocation.flags, invocation.program)
        case BrokerMode.SERVE | BrokerMode.UP_DETACHED:
            from ottla.cli.broker.serve import serve

            is_up = invocation.mode is BrokerMode.UP_DETACHED
            serve(invocation.flags, is_up=is_up, cluster=invocation.cluster)
        case BrokerMode.SERVE_PROCESSES:
            from ottla.cli.cluster.serve_processes import serve_processes

            serve_processes(invocation)
        case BrokerMode.UP_CLUSTER | BrokerMode.UP_CLUSTER_DETACHED:
            from ottla.cli.cluster.up import run_cluster

            run_cluster(invocation)


if __name__ == "__main__":
    run_invocation(BrokerInvocation.parse(sys.argv[1:]))
