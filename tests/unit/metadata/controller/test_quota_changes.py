"""What AlterClientQuotas may set."""

import math

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.quota_changes import QuotaChange, alter_quotas, quota_entity
from ottla.metadata.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from ottla.metadata.records import Quota
from ottla.metadata.values import QuotaEntity, QuotaEntityKind

ENTITY = (QuotaEntity(QuotaEntityKind.CLIENT_ID, "c"), QuotaEntity(QuotaEntityKind.USER, None))


def test_parts_may_be_in_any_order() -> None:
    assert quota_entity([("user", None), ("client-id", "c")]) == ENTITY
    assert quota_entity([("client-id", "c"), ("user", None)]) == ENTITY


def test_rates_are_set_and_removed() -> None:
    changes = [QuotaChange(PRODUCER_BYTE_RATE, 1024.0), QuotaChange(CONSUMER_BYTE_RATE, None)]
    assert alter_quotas(ENTITY, changes) == [
        Quota(ENTITY, PRODUCER_BYTE_RATE, 1024.0),
        Quota(ENTITY, CONSUMER_BYTE_RATE, None),
    ]


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("team", "a")],
        [("user", "")],
        [("user", "u" * 1001)],
        [("user", "a"), ("user", "b")],
        [("ip", "127.0.0.1")],
        [("ip", "127.0.0.1"), ("user", "a")],
    ],
)
def test_no_such_entity(parts: list[tuple[str, str | None]]) -> None:
    with pytest.raises(PeerError) as refused:
        quota_entity(parts)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (PRODUCER_BYTE_RATE, 0.0),
        (PRODUCER_BYTE_RATE, -1.0),
        (PRODUCER_BYTE_RATE, 0.5),
        (PRODUCER_BYTE_RATE, math.nan),
        (PRODUCER_BYTE_RATE, math.inf),
        ("request_percentage", 10.0),
        ("controller_mutation_rate", None),
        ("speed", 1.0),
    ],
)
def test_no_such_quota(key: str, value: float | None) -> None:
    with pytest.raises(PeerError) as refused:
        alter_quotas(ENTITY, [QuotaChange(PRODUCER_BYTE_RATE, 1.0), QuotaChange(key, value)])
    assert refused.value.code is ErrorCode.INVALID_REQUEST
