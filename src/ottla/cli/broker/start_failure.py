"""The failure of a process that did not start, from its exit code and its log."""

from ottla.cli.shared.failure import ExitCode, Failure

# The log lines shown for a process that did not start.
_LOG_LINES_SHOWN_MAX = 10


def start_failure(what: str, exit_code: int, log_path: str, log_start: int) -> Failure:
    """The Failure with the last lines of the log after `log_start`."""
    with open(log_path, encoding="utf-8", errors="replace") as log:
        log.seek(log_start)
        last_lines = [line.strip() for line in log][-_LOG_LINES_SHOWN_MAX:]
    known = exit_code in tuple(ExitCode)
    # A full disk takes no log either.
    unlogged = "run it without --detach to see its error"
    return Failure(
        f"{what} did not start",
        why="; ".join(last_lines) or f"it wrote nothing to its log, {log_path}",
        advice=f"see its log, {log_path}" if last_lines else unlogged,
        exit_code=ExitCode(exit_code) if known else ExitCode.FAILED,
    )
