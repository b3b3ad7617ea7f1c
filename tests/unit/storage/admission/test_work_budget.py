import pytest

from ottla.protocol.batch import Record, build, plain_records
from ottla.protocol.compression import Codec, DecompressedTooLarge
from ottla.storage.admission.work_budget import (
    UNBOUNDED,
    UNCOUNTED_RECORDS_MAX,
    UNITS_PER_NEW_LOG,
    UNITS_PER_RECORD,
    UNITS_PER_SLOWLY_COMPRESSED_BYTE,
    BudgetSpent,
    WorkBudget,
)

PLAIN = build([Record(0, 0, None, bytes(1000))])
COMPRESSED = build([Record(0, 0, None, bytes(1000))], codec=Codec.ZSTD)
BODY_BYTES = len(plain_records(COMPRESSED))


def test_decompression_costs_the_bytes_that_it_makes() -> None:
    budget = WorkBudget(BODY_BYTES + 5)
    assert len(budget.unfold(COMPRESSED, 1 << 20)) == BODY_BYTES
    assert budget.units_left == 5
    with pytest.raises(BudgetSpent):
        budget.unfold(COMPRESSED, 1 << 20)
    assert budget.units_left == 0, "the attempt took what was left"
    with pytest.raises(BudgetSpent):
        budget.unfold(COMPRESSED, 1 << 20)


def test_an_uncompressed_batch_costs_nothing_to_unfold() -> None:
    budget = WorkBudget(0)
    assert budget.unfold(PLAIN, 1) == PLAIN[61:]
    assert budget.units_left == 0


def test_the_limit_of_a_single_batch_holds_with_and_without_a_budget() -> None:
    for budget in (UNBOUNDED, WorkBudget(1 << 30)):
        with pytest.raises(DecompressedTooLarge):
            budget.unfold(COMPRESSED, BODY_BYTES - 1)


def test_few_records_are_not_counted_and_many_are_paid_for_whole() -> None:
    budget = WorkBudget(UNITS_PER_RECORD * 2000)
    budget.spend_on_reading(UNCOUNTED_RECORDS_MAX)
    budget.spend_on_reading(1500)
    assert budget.units_left == UNITS_PER_RECORD * 500
    with pytest.raises(BudgetSpent):
        budget.spend_on_reading(1500)
    assert budget.units_left == UNITS_PER_RECORD * 500, "refused work costs nothing"


def test_slow_compression_levels_cost_more() -> None:
    for codec, level, units in (
        (Codec.SNAPPY, None, 2),
        (Codec.ZSTD, 3, 3),
        (Codec.ZSTD, 19, UNITS_PER_SLOWLY_COMPRESSED_BYTE),
        (Codec.GZIP, None, 10),
    ):
        budget = WorkBudget(units * 100)
        budget.spend_on_compressing(100, codec, level)
        assert budget.units_left == 0


def test_a_new_log_is_work_too_and_no_budget_is_no_bound() -> None:
    budget = WorkBudget(UNITS_PER_NEW_LOG)
    budget.spend_on_new_log()
    with pytest.raises(BudgetSpent):
        budget.spend_on_new_log()
    for _ in range(3):
        UNBOUNDED.spend_on_new_log()
        UNBOUNDED.spend_on_reading(10**9)
