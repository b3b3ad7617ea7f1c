"""Token buckets, and who shares one."""

import pytest

from ottla.broker.requests import client_quotas
from ottla.broker.requests.client_quotas import BURST_S, ClientQuotas, TokenBucket
from ottla.metadata.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from ottla.metadata.values import QuotaEntity, QuotaEntityKind

SECOND_NS = 1_000_000_000
ANY_CLIENT = (QuotaEntity(QuotaEntityKind.CLIENT_ID, None),)
ALICE = (QuotaEntity(QuotaEntityKind.USER, "alice"),)


def test_a_full_bucket_lasts_for_the_burst_and_then_the_client_waits() -> None:
    bucket = TokenBucket(100, 0)
    assert bucket.spend(100 * BURST_S, 0) == 0
    assert bucket.spend(50, 0) == 0.5
    # Half of it has come back.
    assert bucket.spend(0, SECOND_NS // 4) == 0.25
    assert bucket.spend(25, SECOND_NS // 2) == 0.25


def test_an_idle_client_saves_up_no_more_than_the_burst() -> None:
    bucket = TokenBucket(100, 0)
    assert bucket.spend(100 * BURST_S + 100, 3600 * SECOND_NS) == 1


def test_a_clock_that_stands_still_gives_nothing() -> None:
    bucket = TokenBucket(100, 0)
    bucket.spend(100 * BURST_S, 0)
    assert [bucket.spend(100, 0) for _ in range(3)] == [1, 2, 3]


def test_a_default_applies_to_each_client_and_a_user_shares() -> None:
    quotas = ClientQuotas()
    quotas.load({ANY_CLIENT: {PRODUCER_BYTE_RATE: 10.0}, ALICE: {PRODUCER_BYTE_RATE: 20.0}})

    def find(user: str, client_id: str | None) -> TokenBucket | None:
        return quotas.find(PRODUCER_BYTE_RATE, user, client_id, 0)

    assert find("bob", "a") is find("bob", "a")
    assert find("bob", "a") is find("carol", "a")
    assert find("bob", "a") is not find("bob", "b")
    assert find("alice", "a") is find("alice", "b")
    assert find("alice", "a") is not find("bob", "a")
    assert quotas.find(CONSUMER_BYTE_RATE, "bob", "a", 0) is None


def test_quotas_that_are_gone_apply_no_more() -> None:
    quotas = ClientQuotas()
    assert quotas.is_empty
    quotas.load({ANY_CLIENT: {PRODUCER_BYTE_RATE: 10.0}})
    assert not quotas.is_empty
    assert quotas.find(PRODUCER_BYTE_RATE, "bob", "a", 0) is not None
    quotas.load({ANY_CLIENT: {}})
    assert quotas.is_empty
    assert quotas.find(PRODUCER_BYTE_RATE, "bob", "a", 0) is None


def test_client_ids_without_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "CLIENTS_MAX", 10)
    quotas = ClientQuotas()
    quotas.load({ANY_CLIENT: {PRODUCER_BYTE_RATE: 10.0}})
    first = quotas.find(PRODUCER_BYTE_RATE, "bob", "0", 0)
    for number in range(1, 10):
        quotas.find(PRODUCER_BYTE_RATE, "bob", str(number), 0)
    assert quotas.find(PRODUCER_BYTE_RATE, "bob", "0", 0) is first
    quotas.find(PRODUCER_BYTE_RATE, "bob", "10", 0)
    assert len(quotas._of_client) == len(quotas._shared) == 10
    assert quotas.find(PRODUCER_BYTE_RATE, "bob", "0", 0) is not first
