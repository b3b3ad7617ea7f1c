"""Metadata records that contradict themselves are refused."""

from typing import Any, get_args

import pytest

from ottla.metadata.entry_codec import encode
from ottla.metadata.records import InvalidRecord, Quota, Record, check
from ottla.metadata.values import Incarnation
from tests.support.metadata.sample_records import ENDPOINT, ENTITY, ONE_OF_EACH, broker, partition


def test_there_is_a_sample_of_every_record() -> None:
    assert {type(record) for record in ONE_OF_EACH} == set(get_args(Record))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"replicas": (), "isr": (), "leader": None}, "without replicas"),
        ({"replicas": (1, 2, 2)}, "replicas name one twice"),
        ({"leader": Incarnation(1, 4)}, "not in the isr"),
        ({"leader": Incarnation(3, 5)}, "not in the isr"),
        ({"isr": (Incarnation(1, 5), Incarnation(9, 1))}, "broker 9 is none of the replicas"),
        ({"isr": (Incarnation(1, 5), Incarnation(1, 6))}, "isr, elr and unclean name one twice"),
        ({"elr": (Incarnation(2, 9),)}, "isr, elr and unclean name one twice"),
        ({"elr": (Incarnation(7, 9),)}, "broker 7 is none of the replicas"),
        ({"unclean": (2,)}, "isr, elr and unclean name one twice"),
        ({"unclean": (8,)}, "broker 8 is none of the replicas"),
        ({"elr": (Incarnation(3, 9),), "unclean": (3,)}, "isr, elr and unclean name one twice"),
        ({"adding": (4,)}, "broker 4 is none of the replicas"),
        ({"removing": (4,)}, "broker 4 is none of the replicas"),
        ({"adding": (3,), "removing": (3,)}, "adding and removing name one twice"),
    ],
)
def test_a_partition_must_be_consistent(changes: dict[str, Any], complaint: str) -> None:
    wrong = partition(**changes)
    with pytest.raises(InvalidRecord, match=complaint):
        check(wrong)
    with pytest.raises(InvalidRecord, match=complaint):
        encode([wrong])


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (broker(endpoints=(ENDPOINT, ENDPOINT)), "listeners name one twice"),
        (Quota((), "producer_byte_rate", 1.0), "a quota for nobody"),
        (Quota(ENTITY[::-1], "producer_byte_rate", 1.0), "not in order"),
        (Quota((ENTITY[0], ENTITY[0]), "producer_byte_rate", 1.0), "not in order"),
    ],
)
def test_other_records_must_be_consistent(record: Record, complaint: str) -> None:
    with pytest.raises(InvalidRecord, match=complaint):
        check(record)


def test_a_credential_does_not_print_its_keys() -> None:
    assert "stored" not in repr(ONE_OF_EACH[6])
