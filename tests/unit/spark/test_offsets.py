"""Offsets are parsed and written in the notation of Spark's Kafka connector only."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.offsets import (
    AtOffsets,
    AtTimes,
    BadOffsets,
    Edge,
    from_json_offsets,
    parse_assignment,
    parse_range_limit,
    parse_times,
    to_json_offsets,
)

PARTITIONS = st.builds(
    TopicPartition, st.text("abc.-_", min_size=1, max_size=5), st.integers(0, 2**31 - 1)
)
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 2**63 - 1), max_size=20)


@given(OFFSETS)
@settings(derandomize=True, deadline=None)
def test_offsets_survive_a_checkpoint(offsets: dict[TopicPartition, int]) -> None:
    assert from_json_offsets(json.loads(json.dumps(to_json_offsets(offsets)))) == offsets


@given(OFFSETS, st.randoms(use_true_random=False))
@settings(derandomize=True, deadline=None)
def test_the_same_offsets_are_the_same_text_however_they_were_found(
    offsets: dict[TopicPartition, int], random: object
) -> None:
    shuffled = list(offsets.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert json.dumps(to_json_offsets(dict(shuffled))) == json.dumps(to_json_offsets(offsets))


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    offsets = {TopicPartition("orders", number): 1 for number in (10, 9, 0)}
    assert list(to_json_offsets(offsets)["orders"]) == ["0", "9", "10"]


def test_a_checkpoint_of_the_connector_is_understood() -> None:
    text = '{"orders":{"1":17,"0":5028},"payments":{"0":3}}'
    assert from_json_offsets(json.loads(text)) == {
        TopicPartition("orders", 0): 5028,
        TopicPartition("orders", 1): 17,
        TopicPartition("payments", 0): 3,
    }


@pytest.mark.parametrize(
    "form", [None, [], 3, {"logOffset": 17}, {"a": {"0": "1"}}, {"a": {"0": -1}}]
)
def test_a_checkpoint_of_another_source_is_refused_with_advice(form: object) -> None:
    with pytest.raises(BadOffsets, match="checkpointLocation of its own"):
        from_json_offsets(form)


def test_places_have_words_and_offsets_have_edges() -> None:
    assert parse_range_limit(" Earliest ") is Edge.EARLIEST
    assert parse_range_limit("latest") is Edge.LATEST
    assert parse_range_limit('{"orders": {"1": -1, "0": -2, "2": 7}}') == AtOffsets(
        {
            TopicPartition("orders", 0): -2,
            TopicPartition("orders", 1): -1,
            TopicPartition("orders", 2): 7,
        }
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ('{"orders": 3}', "orders has no object of partitions"),
        ('{"orders": {"x": 3}}', "'x' is not a partition of orders"),
        ('{"orders": {"07": 3}}', "'07' is not a partition of orders"),
        ('{"orders": {"-1": 3}}', "'-1' is not a partition of orders"),
        ('{"orders": {"2147483648": 3}}', "'2147483648' is not a partition of orders"),
        ('{"orders": {"0": -3}}', "orders-0 has -3"),
        ('{"orders": {"0": true}}', "orders-0 has True"),
        ('{"orders": {"0": 1.5}}', "orders-0 has 1.5"),
        ('{"orders": {"0": -2.0}}', "orders-0 has -2.0"),
        ('{"orders": {"0": 9223372036854775808}}', "orders-0 has 9223372036854775808"),
    ],
)
def test_malformed_offsets_are_refused_with_the_place_and_an_example(text: str, why: str) -> None:
    with pytest.raises(BadOffsets) as caught:
        parse_range_limit(text)
    assert why in str(caught.value)
    assert '{"orders": {"0": 23, "1": -2}}' in str(caught.value)


def test_times_are_no_edges() -> None:
    assert parse_times('{"a": {"0": 5}}') == AtTimes({TopicPartition("a", 0): 5})
    with pytest.raises(BadOffsets, match="a-0 has -1"):
        parse_times('{"a": {"0": -1}}')


def test_an_assignment_names_each_partition_once_and_in_order() -> None:
    assert parse_assignment('{"b": [1, 0, 1], "a": [2]}') == (
        TopicPartition("a", 2),
        TopicPartition("b", 0),
        TopicPartition("b", 1),
    )


@pytest.mark.parametrize(
    "text", ["{}", '{"a": []}', '{"a": 1}', '{"a": ["0"]}', '{"a": [true]}', '{"a": [-1]}', "a"]
)
def test_a_malformed_assignment_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadOffsets) as caught:
        parse_assignment(text)
    assert '{"orders": [0, 1]}' in str(caught.value)
