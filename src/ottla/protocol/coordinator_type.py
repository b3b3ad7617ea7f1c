"""What FindCoordinator can look for."""

from enum import IntEnum


class CoordinatorType(IntEnum):
    """Whose coordinator is asked for."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2
