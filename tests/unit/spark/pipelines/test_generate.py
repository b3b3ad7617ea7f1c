"""Generated records: repeatable from a seed, with realistic faults."""

import json
from collections import Counter
from itertools import islice

import pytest

from ottla.spark.pipelines.catalogue import GeneratedRecord
from ottla.spark.pipelines.seeded_random import SeededRandom
from ottla.spark.pipelines.trending.generate import generate

NOON_MS = 1_767_268_800_000


@pytest.fixture(scope="module")
def records() -> list[GeneratedRecord]:
    return list(islice(generate(1, NOON_MS, 20.0), 20_000))


def test_the_numbers_are_those_of_the_published_generator() -> None:
    random = SeededRandom(1234567)
    assert [random.below(1 << 64) for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_the_distributions_are_right() -> None:
    random = SeededRandom(7)
    assert 900 < sum(random.chance(0.1) for _ in range(10_000)) < 1100
    assert 4.8 < sum(random.exponential(5.0) for _ in range(10_000)) / 10_000 < 5.2
    assert set(Counter(random.below(3) for _ in range(1000))) == {0, 1, 2}


def test_a_seed_gives_the_same_records_again_and_another_gives_others() -> None:
    first, again, other = (list(islice(generate(seed, NOON_MS, 5.0), 500)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_records_come_in_order_and_events_do_not(records: list[GeneratedRecord]) -> None:
    times = [record.timestamp_ms for record in records]
    assert times == sorted(times)
    assert times[0] >= NOON_MS
    # About as many per second as requested.
    assert 800_000 < times[-1] - times[0] < 1_200_000
    events = [json.loads(record.value) for record in records if record.value.endswith(b"}")]
    happened = [event["at_ms"] for event in events]
    assert happened != sorted(happened)


def test_some_events_come_late_some_twice_some_broken_and_some_from_the_future(
    records: list[GeneratedRecord],
) -> None:
    whole = [record for record in records if record.value.endswith(b"}")]
    events = [(json.loads(record.value), record.timestamp_ms) for record in whole]
    delays = [came_ms - event["at_ms"] for event, came_ms in events]
    copies = Counter(event["event_id"] for event, _ in events)
    assert 10 < len(records) - len(whole) < 100
    assert 20 < sum(delay > 120_000 for delay in delays) < 200
    assert 5 < sum(delay < 0 for delay in delays) < 50
    assert 200 < sum(count == 2 for count in copies.values()) < 600
    assert max(copies.values()) == 2


def test_a_few_posts_have_most_of_the_attention(records: list[GeneratedRecord]) -> None:
    attention = [count for _, count in Counter(record.key for record in records).most_common()]
    assert len(attention) > 200
    assert sum(attention[: len(attention) // 10]) > 0.35 * len(records)
