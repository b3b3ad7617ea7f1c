"""The decisions of the transaction coordinator."""

from functools import partial

import pytest

from ottla.coordinators.txn.machine import EXPIRY_TIMER
from ottla.coordinators.txn.states import TransactionState
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.producer_epoch import NO_PRODUCER, PRODUCER_EPOCH_MAX, ProducerIdAndEpoch
from tests.support.coordinators.transactions import (
    ABORT,
    COMMIT,
    RULES,
    T0,
    T1,
    T2,
    Stage,
    refusal,
)

V2 = 2


def at_epoch(stage: Stage, epoch: int) -> ProducerIdAndEpoch:
    """The producer of a transactional id that has reached this epoch."""
    stage.init()
    stage.machine.replay(stage.of()._replace(producer_epoch=epoch))
    return ProducerIdAndEpoch(stage.of().producer_id, epoch)


# InitProducerId


def test_a_new_transactional_id_starts_at_epoch_0() -> None:
    stage = Stage()
    assert stage.init() == (1000, 0)
    assert stage.of().state is TransactionState.EMPTY


def test_a_second_producer_fences_the_first() -> None:
    stage = Stage()
    first = stage.init()
    second = stage.init()
    assert second == (first.producer_id, first.producer_epoch + 1)
    assert refusal(lambda: stage.add(first, T0)) is ErrorCode.PRODUCER_FENCED
    assert refusal(lambda: stage.end(first)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_a_second_producer_has_the_open_transaction_aborted_first(
    transaction_version: int,
) -> None:
    stage = Stage(transaction_version=transaction_version)
    first = stage.init()
    stage.add(first, T0)
    assert refusal(stage.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = stage.effects
    assert (markers.kind, markers.partitions) == (ABORT, {T0})
    assert markers.producer_epoch == first.producer_epoch + 1
    assert refusal(stage.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    stage.write_markers()
    assert stage.of().state is TransactionState.COMPLETE_ABORT
    assert stage.init() == (first.producer_id, first.producer_epoch + 2)


@pytest.mark.parametrize("timeout_ms", [0, -1, RULES.timeout_ms_max + 1])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    stage = Stage()
    code = refusal(lambda: stage.init(timeout_ms=timeout_ms))
    assert code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not stage.log


def test_the_longest_timeout_is_taken() -> None:
    stage = Stage()
    stage.init(timeout_ms=RULES.timeout_ms_max)
    assert stage.of().timeout_ms == RULES.timeout_ms_max


def test_a_producer_renews_its_epoch_and_may_repeat_that() -> None:
    stage = Stage()
    first = stage.init()
    renewed = stage.init(expected=first)
    assert renewed == (first.producer_id, 1)
    assert stage.init(expected=first) == renewed
    stage.restart()
    assert stage.init(expected=first) == renewed
    assert stage.init(expected=renewed) == (first.producer_id, 2)
    assert refusal(lambda: stage.init(expected=first)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_was_replaced_may_not_renew_its_epoch() -> None:
    stage = Stage()
    first = stage.init()
    stage.init()
    assert refusal(lambda: stage.init(expected=first)) is ErrorCode.PRODUCER_FENCED


def test_another_producers_id_is_fenced() -> None:
    stage = Stage()
    stage.init()
    stranger = ProducerIdAndEpoch(5, 0)
    assert refusal(lambda: stage.init(expected=stranger)) is ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_transactional_id_expired_gets_a_new_id() -> None:
    stage = Stage()
    assert stage.init(expected=ProducerIdAndEpoch(5, 3)) == (1000, 0)


def test_the_last_epoch_is_kept_to_fence_its_producer() -> None:
    stage = Stage()
    last = at_epoch(stage, PRODUCER_EPOCH_MAX - 1)
    assert stage.init() == (1001, 0)
    assert refusal(lambda: stage.add(last, T0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_renewal_that_uses_up_the_epochs_may_be_repeated() -> None:
    stage = Stage()
    last = at_epoch(stage, PRODUCER_EPOCH_MAX - 1)
    renewed = stage.init(expected=last)
    assert renewed == (1001, 0)
    assert stage.init(expected=last) == renewed


def test_transactional_ids_are_bounded() -> None:
    stage = Stage(RULES._replace(ids_max=2))
    stage.init("a")
    stage.init("b")
    assert refusal(lambda: stage.init("c")) is ErrorCode.POLICY_VIOLATION
    assert stage.init("a").producer_epoch == 1


# Partitions


def test_partitions_are_added_until_the_transaction_ends() -> None:
    stage = Stage()
    producer = stage.init()
    stage.add(producer, T0)
    stage.add(producer, T1, T2)
    assert stage.of().partitions == {T0, T1, T2}
    stage.end(producer)
    (markers,) = stage.write_markers()
    assert markers.partitions == {T0, T1, T2}
    stage.add(producer, T1)
    assert stage.of().partitions == {T1}


def test_partitions_that_are_in_the_transaction_are_not_written_again() -> None:
    stage = Stage()
    producer = stage.init()
    stage.add(producer, T0, T1)
    written = len(stage.log)
    stage.add(producer, T1)
    assert len(stage.log) == written


def test_no_partition_is_added_while_markers_are_written() -> None:
    stage = Stage()
    producer = stage.init()
    stage.add(producer, T0)
    stage.end(producer)
    assert refusal(lambda: stage.add(producer, T1)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_partitions_of_an_unknown_id_or_of_another_producer_are_refused() -> None:
    stage = Stage()
    producer = stage.init()
    other = ProducerIdAndEpoch(7, 0)
    for name, who in (("nobody", producer), ("id", other)):
        code = refusal(lambda who=who, name=name: stage.add(who, T0, name=name))
        assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_partitions_of_a_transaction_are_bounded() -> None:
    stage = Stage(RULES._replace(partitions_max=2))
    producer = stage.init()
    stage.add(producer, T0, T1)
    assert refusal(lambda: stage.add(producer, T2)) is ErrorCode.POLICY_VIOLATION
    assert stage.of().partitions == {T0, T1}


def test_verification_tells_partitions_of_the_transaction_from_others() -> None:
    stage = Stage()
    producer = stage.init()
    stage.add(producer, T0)
    assert stage.machine.verify("id", producer, [T0, T1]) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    stage.end(producer)
    code = refusal(lambda: stage.machine.verify("id", producer, [T0]))
    assert code is ErrorCode.CONCURRENT_TRANSACTIONS
    stage.write_markers()
    assert stage.machine.verify("id", producer, [T0]) == {T0: ErrorCode.TRANSACTION_ABORTABLE}


# EndTxn


def test_a_commit_asks_for_markers_and_is_complete_after_them() -> None:
    stage = Stage()
    producer = stage.init()
    stage.add(producer, T0)
    assert stage.end(producer) == NO_PRODUCER
    assert stage.of().state is TransactionState.PREPARE_COMMIT
    (markers,) = stage.write_markers()
    assert markers[:4] == ("id", producer.producer_id, producer.producer_epoch, COMMIT)
    assert stage.of().state is TransactionState.COMPLETE_COMMIT
    assert stage.end(producer) == ProducerIdAndEpoch(producer.producer_id, 0)


def test_the_end_of_a_transaction_bumps_the_epoch_for_clients_of_version_2() -> None:
    stage = Stage()
    producer = stage.init()
    stage.add(producer, T0, client_version=V2)
    after = stage.end(producer, client_version=V2)
    assert after == (producer.producer_id, producer.producer_epoch + 1)
    (markers,) = stage.write_markers()
    assert markers.producer_epoch == after.producer_epoch
    assert markers.transaction_version == V2
    # The answer was lost, and the next transaction has not begun.
    assert stage.end(producer, client_version=V2) == after
    assert refusal(lambda: stage.end(producer, ABORT, client_version=V2)) is (
        ErrorCode.INVALID_TXN_STATE
    )


def test_a_late_retry_of_version_2_does_not_end_the_next_transaction() -> None:
    stage = Stage()
    producer = stage.init()
    stage.add(producer, T0, client_version=V2)
    after = stage.end(producer, client_version=V2)
    stage.write_markers()
    stage.add(after, T1, client_version=V2)
    code = refusal(lambda: stage.end(producer, client_version=V2))
    assert code is ErrorCode.PRODUCER_FENCED
    assert stage.of().state is TransactionState.ONGOING


def test_a_producer_that_an_older_client_has_fenced_cannot_pass_for_it() -> None:
    stage = Stage()
    fenced = stage.init()
    older = stage.init()
    for kind in (COMMIT, ABORT):
        stage.add(older, T0)
        stage.end(older, kind, client_version=0)
        stage.write_markers()
        for retried in (COMMIT, ABORT):
            zombie = partial(stage.end, fenced, retried, client_version=V2)
            assert refusal(zombie) is ErrorCode.PRODUCER_FENCED


def test_the_last_epoch_of_version_2_is_followed_by_a_new_producer_id() -> None:
    stage = Stage()
    last = at_epoch(stage, PRODUCER_EPOCH_MAX - 1)
    stage.add(last, T0, client_version=V2)
    after = stage.end(last, client_version=V2)
    assert after == (1001, 0)
    (markers,) = stage.write_markers()
    assert markers[1:3] == (last.producer_id, PRODUCER_EPOCH_MAX)
    assert stage.end(last, client_version=V2) == after
    stage.restart()
    assert stage.end(last, client_version=V2) == after
    stage.add(after, T0, client_version=V2)
    assert refusal(lambda: stage.end(last, client_version=V2)) is (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )


@pytest.mark.parametrize("client_version", [0, 2])
def test_the_end_of_an_unknown_id_or_another_producer_is_refused(client_version: int) -> None:
    stage = Stage()
    producer = stage.init()
    for name, who in (("nobody", producer), ("id", ProducerIdAndEpoch(7, 0))):
        code = refusal(
            lambda who=who, name=name: stage.end(who, name=name, client_version=client_version)
        )
        assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_markers_of_an_earlier_transaction_complete_nothing() -> None:
    stage = Stage()
    producer = stage.init()
    stage.add(producer, T0, client_version=V2)
    after = stage.end(producer, client_version=V2)
    (early,) = stage.write_markers()
    stage.add(after, T0, client_version=V2)
    stage.end(after, client_version=V2)
    stage.carry_out(stage.machine.markers_written(early, stage.now_ms))
    assert stage.of().state is TransactionState.PREPARE_COMMIT


# Timers


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_a_transaction_that_exceeds_its_timeout_is_aborted_and_its_producer_fenced(
    transaction_version: int,
) -> None:
    stage = Stage(transaction_version=transaction_version)
    producer = stage.init(timeout_ms=500)
    stage.add(producer, T0)
    stage.wait(499)
    assert stage.of().state is TransactionState.ONGOING
    stage.wait(20)
    (markers,) = stage.write_markers()
    assert (markers.kind, markers.producer_epoch) == (ABORT, producer.producer_epoch + 1)
    assert refusal(lambda: stage.end(producer)) is ErrorCode.PRODUCER_FENCED
    assert stage.of().state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("end", ["timeout", "fence"])
def test_the_abort_of_the_last_epoch_is_followed_by_a_new_producer_id(end: str) -> None:
    """The markers of a transaction of version 2 need an epoch above it."""
    stage = Stage()
    last = at_epoch(stage, PRODUCER_EPOCH_MAX - 1)
    stage.add(last, T0, client_version=V2)
    if end == "timeout":
        stage.wait(stage.of().timeout_ms + RULES.timeout_check_interval_ms)
    else:
        assert refusal(stage.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = stage.write_markers()
    assert markers.producer_epoch == PRODUCER_EPOCH_MAX
    new = ProducerIdAndEpoch(1001, 0)
    # Its owner learns of it, however it asks.
    assert stage.end(last, ABORT, client_version=V2) == new
    stage.restart()
    assert stage.end(last, ABORT, client_version=V2) == new
    assert stage.init(expected=last) == new
    assert stage.init(expected=last) == new
    stage.add(new, T1, client_version=V2)
    stage.end(new, COMMIT, client_version=V2)
    (markers,) = stage.write_markers()
    assert (markers.producer_id, markers.producer_epoch) == (1001, 1)


def test_a_timeout_at_the_last_epoch_waits_for_a_new_producer_id() -> None:
    stage = Stage()
    last = at_epoch(stage, PRODUCER_EPOCH_MAX - 1)
    stage.add(last, T0, client_version=V2)
    stage.has_producer_ids = False
    with pytest.raises(PeerError):
        stage.wait(stage.of().timeout_ms + RULES.timeout_check_interval_ms)
    assert stage.of().state is TransactionState.ONGOING
    assert stage.meter.timeouts == stage.meter.aborts == 0


def test_an_epoch_above_the_last_one_that_a_client_has_got_can_be_ended() -> None:
    """As Ottla 0.1.0 gave it to clients."""
    stage = Stage()
    highest = at_epoch(stage, PRODUCER_EPOCH_MAX)
    stage.add(highest, T0, client_version=V2)
    assert stage.end(highest, COMMIT, client_version=V2) == (1001, 0)
    (markers,) = stage.write_markers()
    # Of its own epoch, which is allowed without a bump.
    assert (markers.producer_epoch, markers.transaction_version) == (PRODUCER_EPOCH_MAX, 0)


def test_a_producer_whose_transaction_timed_out_may_renew_its_epoch() -> None:
    stage = Stage()
    producer = stage.init(timeout_ms=500)
    stage.add(producer, T0, client_version=V2)
    stage.wait(600)
    stage.write_markers()
    assert stage.init(expected=producer) == (producer.producer_id, 1)


def test_a_transaction_that_ended_in_time_is_not_aborted() -> None:
    stage = Stage()
    producer = stage.init(timeout_ms=500)
    stage.add(producer, T0)
    stage.end(producer)
    stage.write_markers()
    stage.wait(1_000)
    assert stage.of().state is TransactionState.COMPLETE_COMMIT
    assert not stage.effects


def test_the_timeout_goes_on_after_a_restart() -> None:
    stage = Stage()
    producer = stage.init(timeout_ms=500)
    stage.add(producer, T0)
    stage.wait(300)
    stage.restart()
    stage.wait(150)
    assert stage.of().state is TransactionState.ONGOING
    stage.wait(100)
    assert stage.of().state is TransactionState.PREPARE_ABORT


def test_a_clock_that_was_set_back_does_not_keep_a_transaction_open() -> None:
    stage = Stage()
    producer = stage.init(timeout_ms=500)
    stage.add(producer, T0)
    stage.now_ms -= 500_000
    stage.restart()
    stage.wait(520)
    assert stage.of().state is TransactionState.PREPARE_ABORT


def test_idle_transactional_ids_expire() -> None:
    stage = Stage()
    stage.restart()
    stage.init("idle")
    stage.add(stage.init("busy", timeout_ms=RULES.timeout_ms_max), T0, name="busy")
    del stage.timers["timeout/busy"]
    stage.wait(RULES.id_expiration_ms - 1)
    assert set(stage.machine.transactions) == {"idle", "busy"}
    stage.wait(RULES.expiry_check_interval_ms)
    assert set(stage.machine.transactions) == {"busy"}
    stage.restart()
    assert set(stage.machine.transactions) == {"busy"}


def test_expiry_examines_many_ids_in_several_decisions() -> None:
    stage = Stage(RULES._replace(ids_max=5_000))
    for number in range(2_500):
        stage.init(f"id-{number}")
    stage.now_ms += RULES.id_expiration_ms
    counts = []
    for _ in range(3):
        decision = stage.machine.timer_expired(EXPIRY_TIMER, stage.now_ms)
        counts.append(len(decision.records))
        stage.carry_out(decision)
    assert counts == [1_000, 1_000, 500]
    assert stage.timers[EXPIRY_TIMER] == stage.now_ms + RULES.expiry_check_interval_ms


# Loading


def test_a_load_asks_again_for_markers_that_may_not_be_written() -> None:
    stage = Stage()
    producer = stage.init()
    stage.add(producer, T0, T1, client_version=V2)
    stage.end(producer, client_version=V2)
    (asked,) = stage.effects
    stage.restart()
    assert stage.effects == [asked]
    stage.write_markers()
    assert stage.of().state is TransactionState.COMPLETE_COMMIT
    stage.restart()
    assert not stage.effects
