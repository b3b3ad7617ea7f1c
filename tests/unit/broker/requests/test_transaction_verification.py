"""The verification of transactional batches: error codes, retries and guards."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.broker.requests.transaction_verification import (
    ProduceTransaction,
    RetryRules,
    UnverifiedBatch,
    produce_code,
    verify,
)
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode
from ottla.protocol.batch import MarkerKind, read_header
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append import verification_guards
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch
from tests.support.broker.transactional_producer import ScriptedCoordinator
from tests.support.replication.partitions import Partitions

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
RETRIABLE = ErrorCode.NOT_ENOUGH_REPLICAS
VERSION_1, VERSION_2 = ProduceTransaction("t", 11), ProduceTransaction("t", 12)
RETRIES = RetryRules(backoff_ms=20, timeout_ms=100)


@pytest.mark.parametrize(
    ("code", "v3", "v11", "v12"),
    [
        (ErrorCode.PRODUCER_FENCED, 47, 47, 47),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 47, 47, 47),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 49, 49, 49),
        (ErrorCode.TRANSACTION_ABORTABLE, 48, 120, 120),
        (ErrorCode.INVALID_TXN_STATE, 48, 48, 48),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 19, 19, 19),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 19, 19, 19),
        (ErrorCode.NOT_COORDINATOR, 19, 19, 19),
        (ErrorCode.NETWORK_EXCEPTION, 19, 19, 19),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 19, 19, 51),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 53, 53, 53),
        (ErrorCode.POLICY_VIOLATION, 44, 44, 44),
    ],
)
def test_a_coordinators_error_has_one_code_per_version(
    code: ErrorCode, v3: int, v11: int, v12: int
) -> None:
    assert [produce_code(code, version) for version in (3, 11, 12)] == [v3, v11, v12]


def unverified(partitions: Partitions, index: int = 0, **fields: Any) -> UnverifiedBatch:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    records = batch(**producer | fields)
    replica = partitions.find("events", index)
    return UnverifiedBatch(replica, memoryview(records), read_header(records))


def test_each_batch_has_a_guard_or_a_refusal() -> None:
    class Choosy:
        async def verify(self, verification: Verification) -> Mapping[TopicPartition, ErrorCode]:
            good, bad, _ = verification.partitions
            return {good: NONE, bad: ErrorCode.TRANSACTION_ABORTABLE}

    async def story() -> None:
        partitions = Partitions()
        partitions.create(partitions=3)
        batches = [unverified(partitions, index) for index in range(3)]
        await verify(batches, VERSION_1, Choosy(), RETRIES)
        good, bad, missing = batches
        assert (good.refusal, bad.guard, missing.guard) == (None, None, None)
        assert good.guard is not None
        assert bad.refusal is not None
        assert bad.refusal.code is ErrorCode.TRANSACTION_ABORTABLE
        assert missing.refusal is not None
        assert missing.refusal.code is RETRIABLE, "no answer is none that is final"
        assert [len(each.replica.verifications) for each in batches] == [1, 0, 1]
        good.end()
        assert len(good.replica.verifications) == 0

    run(story())


def test_a_partition_that_is_named_twice_is_asked_for_once() -> None:
    async def story() -> None:
        partitions = Partitions()
        partitions.create()
        coordinator = ScriptedCoordinator()
        batches = [unverified(partitions), unverified(partitions, base_sequence=1)]
        await verify(batches, VERSION_1, coordinator, RETRIES)
        (asked,) = coordinator.asked
        assert asked.partitions == (TopicPartition("events", 0),)
        assert batches[0].guard is batches[1].guard is not None
        assert batches[0].guard.lowest_sequence == 0

    run(story())


def test_each_try_has_a_guard_of_its_own() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create()
        waiting = unverified(partitions)
        coordinator = ScriptedCoordinator(CONCURRENT, NONE)
        loop = asyncio.get_running_loop()
        # The previous transaction ends while the leader waits.
        loop.call_later(0.01, partitions.end_transaction, replica, MarkerKind.COMMIT, 7)
        await verify([waiting], VERSION_2, coordinator, RETRIES)
        assert waiting.guard is not None
        assert replica.verifications.is_valid(waiting.guard)

    run(story())


def test_a_producer_of_transaction_version_2_begins_at_sequence_0() -> None:
    async def story() -> None:
        partitions = Partitions()
        partitions.create(partitions=2)
        for index, transaction, lowest in ((0, VERSION_1, 4), (1, VERSION_2, 0)):
            waiting = unverified(partitions, index, base_sequence=4)
            await verify([waiting], transaction, ScriptedCoordinator(), RETRIES)
            assert waiting.guard is not None
            assert waiting.guard.lowest_sequence == lowest

    run(story())


def test_nobody_is_asked_for_batches_without_a_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        partitions = Partitions()
        partitions.create()
        monkeypatch.setattr(verification_guards, "GUARDS_MAX", 0)
        waiting, coordinator = unverified(partitions), ScriptedCoordinator()
        await verify([waiting], VERSION_2, coordinator, RETRIES)
        assert waiting.refusal is not None
        assert (waiting.refusal.code, coordinator.asked) == (RETRIABLE, [])

    run(story())


@pytest.mark.parametrize("cancelled_after_s", [0.001, 0.03])
def test_a_cancelled_verification_ends_its_guards(cancelled_after_s: float) -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create()
        coordinator = ScriptedCoordinator(CONCURRENT)
        verifying = asyncio.get_running_loop().create_task(
            verify([unverified(partitions)], VERSION_2, coordinator, RETRIES)
        )
        await asyncio.sleep(cancelled_after_s)
        coordinator.may_answer.clear()
        await asyncio.sleep(0.03)
        verifying.cancel()
        await asyncio.wait([verifying])
        assert not replica.verifications._used

    run(story())
