"""`ottla`: the entry point. It imports only the dependencies of the called command."""

import sys

from ottla.cli.broker.serve_parser import plain_serve_arguments
from ottla.cli.shared.failure import ExitCode


def main() -> None:
    try:
        _main()
    # Ctrl-C before a command or a broker handles it.
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None


def _main() -> None:
    arguments = plain_serve_arguments(sys.argv[1:])
    if arguments is None:
        from ottla.cli.app import app

        app()
    else:
        from ottla.cli.broker.invocation import BrokerInvocation
        from ottla.cli.broker.process import run_invocation

        run_invocation(BrokerInvocation.parse([*arguments, f"program={sys.argv[0]}"]))
