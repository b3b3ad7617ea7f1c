"""For the little that the loop and a thread both do."""

import threading
from contextlib import AbstractContextManager


def new_mutex() -> AbstractContextManager[object]:
    """One at a time is inside; the other waits."""
    return threading.Lock()
