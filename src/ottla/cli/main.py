"""`ottla`: the entry point. It imports what the command needs that was called, and no more."""

import sys

from ottla.cli.broker.serve_parser import plain_words
from ottla.cli.shared.failure import ExitCode


def main() -> None:
    try:
        _main()
    # Before a command or a broker is there to see to it.
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None


def _main() -> None:
    words = plain_words(sys.argv[1:])
    if words is None:
        from ottla.cli.app import app

        app()
    else:
        from ottla.cli.broker.process import Order, carry_out

        carry_out(Order.parse([*words, f"program={sys.argv[0]}"]))
