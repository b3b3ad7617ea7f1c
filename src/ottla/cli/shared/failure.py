"""How a command ends when it cannot do what was asked: in words, and with an exit code."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script can tell from how a command ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    DENIED = 5
    CHECK_FAILED = 6
    INTERRUPTED = 130


class Failure(Exception):
    """The end of a command: what is wrong, why, and what to do about it."""

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
        """What the user reads."""
        found = [f"error: {self.what}"]
        if self.why:
            found.append(f"  why: {self.why}")
        if self.advice:
            found.append(f"  try: {self.advice}")
        return found


def failure_of(error: Exception) -> Failure:
    """What an exception that no command expected means for the user."""
    # Imported here: a command that does not fail has no use for it.
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
        why="this is a fault of ottla itself",
        advice="run it again as `ottla --debug …` and report what it prints",
    )
