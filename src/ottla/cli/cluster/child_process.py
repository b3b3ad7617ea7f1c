"""Child processes of a supervisor: how they end with it, and how they ended."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Runs in the child: a killed parent cannot end its children."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_text(return_code: int) -> str:
    """How a process ended: `exit code 1` or `signal SIGKILL`."""
    if return_code >= 0:
        return f"exit code {return_code}"
    try:
        return f"signal {signal.Signals(-return_code).name}"
    except ValueError:
        return f"signal {-return_code}"
