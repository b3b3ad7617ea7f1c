"""Failures of commands: a message for the user, and an exit code."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of commands, for scripts."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    DENIED = 5
    CHECK_FAILED = 6
    STALLED = 7
    INTERRUPTED = 130


class Failure(Exception):
    """Ends a command with the error, its cause and advice."""

    def __init__(
        self,
        what: str,
        *,
        why: str | None = None,
        advice: str | None = None,
        exit_code: ExitCode = ExitCode.FAILED,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.advice = advice
        self.exit_code = exit_code

    @property
    def lines(self) -> list[str]:
        """The lines of the error message."""
        found = [f"error: {self.what}"]
        if self.why:
            found.append(f"  why: {self.why}")
        if self.advice:
            found.append(f"  try: {self.advice}")
        return found


def failure_of(error: Exception) -> Failure:
    """The Failure for an exception that a command did not handle."""
    # Imported here: a command that succeeds does not need it.
    from ottla.errors import OttlaError

    if isinstance(error, Failure):
        return error
    if isinstance(error, FileNotFoundError):
        return Failure(f"{error.filename} does not exist", exit_code=ExitCode.NOT_FOUND)
    if isinstance(error, OSError):
        return Failure(f"{error.filename or 'the disk'}: {error.strerror or error}")
    if isinstance(error, OttlaError):
        return Failure(str(error))
    return Failure(
        f"{type(error).__name__}: {error}",
        why="this is a bug in ottla",
        advice="run it again as `ottla --debug …` and report its output",
    )
