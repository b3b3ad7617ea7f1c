"""A mutex for the little state that the event loop shares with a thread."""

import threading
from contextlib import AbstractContextManager


def new_mutex() -> AbstractContextManager[object]:
    """A context manager that one thread at a time can enter."""
    return threading.Lock()
