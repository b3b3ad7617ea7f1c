"""The end offsets of a stream's next micro-batch, for every change of its topics."""

import pytest

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.micro_batch import (
    TriggerDelay,
    TriggerLimits,
    next_batch,
    partitions_without_position,
)
from ottla.spark.offsets import Offsets

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_all_that_is_there_is_read() -> None:
    assert next_batch({A0: 3, A1: 4}, {A0: 9, A1: 4}, {}, (), None) == ({A0: 9, A1: 4}, [])


def test_a_limit_holds_for_all_partitions_together() -> None:
    assert next_batch({A0: 0, A1: 0}, {A0: 90, A1: 10}, {}, (), 10) == ({A0: 9, A1: 1}, [])


def test_an_added_partition_is_read_from_where_it_begins() -> None:
    start, latest = {A0: 3}, {A0: 3, A1: 100}
    assert partitions_without_position(start, latest, ()) == [A1]
    assert next_batch(start, latest, {A1: 0}, (), 10) == ({A0: 3, A1: 10}, [])


def test_a_recreated_topic_is_reset_and_then_read_completely() -> None:
    start, latest = {A0: 50, B0: 1}, {A0: 70, B0: 2}
    assert partitions_without_position(start, latest, ("a",)) == [A0]
    end, losses = next_batch(start, latest, {A0: 0}, ("a",), None)
    assert end == {A0: 0, B0: 2}
    assert losses == ["the topic of a-0 was deleted and recreated"]
    assert next_batch(end, latest, {}, (), None) == ({A0: 70, B0: 2}, [])


def test_a_log_that_ends_before_the_position_is_reset() -> None:
    start, latest = {A0: 50}, {A0: 20}
    assert partitions_without_position(start, latest, ()) == [A0]
    end, losses = next_batch(start, latest, {A0: 5}, (), None)
    assert end == {A0: 5}
    assert losses == ["a-0 was read up to 50, but now ends at 20"]


def test_a_partition_that_is_gone_is_left_out_and_new_when_it_comes_back() -> None:
    end, losses = next_batch({A0: 50, B0: 1}, {B0: 1}, {}, (), None)
    assert end == {B0: 1}
    assert losses == ["a-0 was deleted"]
    assert next_batch(end, {A0: 7, B0: 1}, {A0: 0}, (), None) == ({A0: 7, B0: 1}, [])


@pytest.mark.parametrize("rows_max", [1, 7, 1000])
def test_an_available_now_query_reaches_its_target_and_stays_there(rows_max: int) -> None:
    target: Offsets = {A0: 100, A1: 3}
    position: Offsets = {A0: 0, A1: 0}
    for _ in range(200):
        position = next_batch(position, target, {}, (), rows_max).end
    assert position == target


def test_a_small_batch_waits_for_more_but_not_for_ever() -> None:
    delay = TriggerDelay(TriggerLimits(rows_min=10, delay_max_ms=1000))
    assert not delay.should_wait({A0: 0}, {A0: 1}, 5000), "the first never waits"
    assert delay.should_wait({A0: 1}, {A0: 10}, 5001)
    assert not delay.should_wait({A0: 1}, {A0: 11}, 5002)
    assert delay.should_wait({A0: 11}, {A0: 12}, 6001)
    assert not delay.should_wait({A0: 11}, {A0: 12}, 6002)


def test_nothing_new_does_not_use_up_the_wait() -> None:
    delay = TriggerDelay(TriggerLimits(rows_min=10, delay_max_ms=1000))
    delay.should_wait({A0: 0}, {A0: 20}, 0)
    assert not delay.should_wait({A0: 20}, {A0: 20}, 900)
    assert not delay.should_wait({A0: 20}, {A0: 21}, 1000)


def test_without_a_least_amount_no_batch_waits() -> None:
    delay = TriggerDelay(TriggerLimits())
    assert not delay.should_wait({A0: 0}, {A0: 1}, 0)
    assert not delay.should_wait({A0: 1}, {A0: 2}, 0)
