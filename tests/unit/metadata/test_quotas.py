"""Which quota applies to a client: the order of Kafka."""

import pytest

from ottla.metadata.quotas import PRODUCER_BYTE_RATE, Entity, effective_quota
from ottla.metadata.values import QuotaEntity, QuotaEntityKind

USER, CLIENT_ID = QuotaEntityKind.USER, QuotaEntityKind.CLIENT_ID
OTHER = "consumer_byte_rate"


def client(name: str | None) -> QuotaEntity:
    return QuotaEntity(CLIENT_ID, name)


def user(name: str | None) -> QuotaEntity:
    return QuotaEntity(USER, name)


# The most specific one first, and who shares it.
ORDER: list[tuple[Entity, Entity]] = [
    ((client("c"), user("u")), (client("c"), user("u"))),
    ((client(None), user("u")), (client("c"), user("u"))),
    ((user("u"),), (user("u"),)),
    ((client("c"), user(None)), (client("c"), user("u"))),
    ((client(None), user(None)), (client("c"), user("u"))),
    ((user(None),), (user("u"),)),
    ((client("c"),), (client("c"),)),
    ((client(None),), (client("c"),)),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_most_specific_entity_wins(first: int) -> None:
    quotas = {
        entity: {PRODUCER_BYTE_RATE: float(place + 1)}
        for place, (entity, _) in enumerate(ORDER)
        if place >= first
    }
    found = effective_quota(quotas, PRODUCER_BYTE_RATE, "u", "c")
    assert found == (first + 1, ORDER[first][1])


def test_an_entity_without_the_key_is_passed_over() -> None:
    quotas = {
        (user("u"),): {OTHER: 1.0},
        (client("c"),): {PRODUCER_BYTE_RATE: 2.0},
    }
    found = effective_quota(quotas, PRODUCER_BYTE_RATE, "u", "c")
    assert found is not None
    assert found.rate == 2.0


def test_others_have_no_quota() -> None:
    quotas = {(client("c"),): {PRODUCER_BYTE_RATE: 2.0}}
    assert effective_quota(quotas, PRODUCER_BYTE_RATE, "u", "d") is None
    assert effective_quota(quotas, PRODUCER_BYTE_RATE, "u", None) is None
    assert effective_quota(quotas, OTHER, "u", "c") is None
