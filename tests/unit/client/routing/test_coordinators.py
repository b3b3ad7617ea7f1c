"""Coordinators are known until an error says that they have moved."""

import pytest

from ottla.address import Address
from ottla.client.errors import ClientError, ConnectionLost, Refused, TimedOut, Unreachable
from ottla.client.routing.coordinators import COORDINATORS_MAX, CoordinatorKey, Coordinators
from ottla.errors import ErrorCode
from ottla.protocol.coordinator_type import CoordinatorType

GROUP = CoordinatorKey("g")
TRANSACTION = CoordinatorKey("g", CoordinatorType.TRANSACTION)
B1, B2 = Address("b1", 9092), Address("b2", 9092)


def test_a_group_and_a_transactional_id_with_one_name_have_separate_coordinators() -> None:
    known = Coordinators()
    known.found(GROUP, B1)
    known.found(TRANSACTION, B2)
    assert (known.get(GROUP), known.get(TRANSACTION)) == (B1, B2)
    known.forget(GROUP)
    assert (known.get(GROUP), known.get(TRANSACTION)) == (None, B2)


@pytest.mark.parametrize(
    ("error", "is_forgotten"),
    [
        (Refused(ErrorCode.NOT_COORDINATOR, "g"), True),
        (Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "g"), True),
        (ConnectionLost("gone"), True),
        (Unreachable("away"), True),
        (TimedOut("silent"), True),
        (Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "g"), False),
        (Refused(ErrorCode.UNKNOWN_MEMBER_ID, "g"), False),
        (Refused(ErrorCode.REQUEST_TIMED_OUT, "g"), False),
    ],
)
def test_a_coordinator_is_forgotten_after_errors_that_say_it_moved(
    error: ClientError, is_forgotten: bool
) -> None:
    known = Coordinators()
    known.found(GROUP, B1)
    known.failed(GROUP, error)
    assert known.get(GROUP) == (None if is_forgotten else B1)


def test_known_coordinators_are_limited_and_the_oldest_is_dropped() -> None:
    known = Coordinators()
    keys = [CoordinatorKey(f"g{number}") for number in range(COORDINATORS_MAX + 1)]
    for key in keys:
        known.found(key, B1)
    known.found(keys[-1], B2)
    assert known.get(keys[0]) is None
    assert (known.get(keys[1]), known.get(keys[-1])) == (B1, B2)
