"""The partitions and offsets of a source, queried from a cluster in memory."""

import pytest

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.cluster import Cluster
from ottla.spark.failures import DataLost, SourceFailed
from ottla.spark.option_table import Mode
from ottla.spark.options import read_options
from tests.support.spark.fake_cluster import FakeClient

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def client() -> FakeClient:
    client = FakeClient()
    client.make("a", 10, 20)
    client.make("b", 5)
    client.make("__internal", 1)
    return client


def cluster(client: FakeClient, mode: Mode = Mode.STREAM, **given: str) -> Cluster:
    least = {"kafka.bootstrap.servers": "x:1"}
    ways = {"subscribe", "subscribePattern", "assign"}
    subscription = {} if ways & given.keys() else {"subscribe": "a"}
    return Cluster(read_options(least | subscription | given, mode), client)


@pytest.mark.parametrize(
    ("given", "partitions"),
    [
        ({"subscribe": "b,a"}, (A0, A1, B0)),
        ({"subscribePattern": ".*"}, (A0, A1, B0)),
        ({"subscribePattern": "c"}, ()),
        ({"assign": '{"a": [1], "b": [0]}'}, (A1, B0)),
    ],
)
def test_partitions_are_those_of_the_subscription(
    client: FakeClient, given: dict[str, str], partitions: tuple[TopicPartition, ...]
) -> None:
    assert cluster(client, **given).subscribed().partitions == partitions


def test_a_missing_topic_is_an_error_at_first_and_left_out_later(client: FakeClient) -> None:
    for missing in (cluster(client, subscribe="a,c"), cluster(client, assign='{"a": [0, 9]}')):
        with pytest.raises(SourceFailed, match=r"UNKNOWN_TOPIC_OR_PARTITION|there is no a-9"):
            missing.subscribed()
        assert A0 in missing.subscribed(may_lack=True).partitions


def test_a_pattern_matches_whole_names_only(client: FakeClient) -> None:
    client.make("a-later", 1)
    assert cluster(client, subscribePattern="a").subscribed().partitions == (A0, A1)


@pytest.mark.parametrize(
    ("given", "starting"),
    [
        ({}, {A0: 10, A1: 20}),
        ({"startingOffsets": "earliest"}, {A0: 3, A1: 0}),
        ({"startingOffsets": '{"a": {"0": -2, "1": -1}}'}, {A0: 3, A1: 20}),
        ({"startingOffsets": '{"a": {"0": 10, "1": 0}}'}, {A0: 10, A1: 0}),
        ({"startingTimestamp": "250"}, {A0: 2, A1: 2}),
        ({"startingOffsetsByTimestamp": '{"a": {"0": 0, "1": 100}}'}, {A0: 0, A1: 0}),
        (
            {"startingTimestamp": "900", "startingOffsetsByTimestampStrategy": "latest"},
            {A0: 10, A1: 20},
        ),
    ],
)
def test_reading_begins_where_the_options_say(
    client: FakeClient, given: dict[str, str], starting: dict[TopicPartition, int]
) -> None:
    client.held["a"].beginnings[0] = 3
    client.held["a"].times = [100, 200, 300]
    assert cluster(client, **given).starting() == starting


def test_reading_ends_where_the_options_say(client: FakeClient) -> None:
    client.held["a"].times = [100, 200, 300]
    assert cluster(client, Mode.BATCH).ending() == {A0: 10, A1: 20}
    late = cluster(client, Mode.BATCH, endingTimestamp="900")
    assert late.ending() == {A0: 10, A1: 20}
    early = cluster(client, Mode.BATCH, endingOffsetsByTimestamp='{"a": {"0": 150, "1": 900}}')
    assert early.ending() == {A0: 1, A1: 20}


def test_a_batch_query_looks_at_its_topics_once(client: FakeClient) -> None:
    query = cluster(client, Mode.BATCH, subscribe="a,b")
    assert (query.starting().keys(), query.ending().keys()) == ({A0, A1, B0}, {A0, A1, B0})
    assert client.looks == 1


def test_a_time_later_than_all_records_is_an_error_by_default(client: FakeClient) -> None:
    with pytest.raises(SourceFailed, match="a-0, a-1 has no record as late"):
        cluster(client, startingTimestamp="1").starting()


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ('{"a": {"0": 1}}', "lacks a-1: name every partition"),
        ('{"a": {"0": 1, "1": 1}, "b": {"0": 1}}', "names b-0, which is not read"),
    ],
)
def test_every_partition_has_an_offset_or_none_has(
    client: FakeClient, offsets: str, why: str
) -> None:
    with pytest.raises(SourceFailed, match=why):
        cluster(client, startingOffsets=offsets).starting()


def test_an_error_names_some_of_many_partitions(client: FakeClient) -> None:
    client.make("a", *[1] * 50)
    with pytest.raises(SourceFailed, match=r"lacks a-1, .*, a-10 and 39 more: name every"):
        cluster(client, startingOffsets='{"a": {"0": 0}}').starting()


@pytest.mark.parametrize(("offset", "taken"), [(2, 3), (11, 10)])
def test_offsets_that_are_not_there_are_lost_or_the_nearest_is_taken(
    client: FakeClient, offset: int, taken: int
) -> None:
    client.held["a"].beginnings[0] = 3
    place = f'{{"a": {{"0": {offset}, "1": 0}}}}'
    with pytest.raises(DataLost, match=f"is {offset} for a-0, which has 3 to 10"):
        cluster(client, startingOffsets=place).starting()
    lenient = cluster(client, startingOffsets=place, failOnDataLoss="false")
    assert lenient.starting() == {A0: taken, A1: 0}


def test_ends_are_never_those_of_a_topic_that_was_made_in_between(client: FakeClient) -> None:
    def make_anew() -> None:
        client.before_offsets = lambda: None
        client.make("a", 7)

    client.before_offsets = make_anew
    ends, ids = cluster(client).standing(may_lack=False)
    assert ends == {A0: 7}
    assert ids == {"a": client.topic("a").topic_id}


def test_a_topic_that_goes_while_it_is_looked_at_is_gone(client: FakeClient) -> None:
    client.before_offsets = lambda: client.held.pop("a", None) and None
    ends, ids = cluster(client, subscribe="a,b").standing(may_lack=True)
    assert (ends, list(ids)) == ({B0: 5}, ["b"])


def test_topics_that_are_never_the_same_are_given_up(client: FakeClient) -> None:
    client.before_offsets = lambda: client.make("a", 1) and None
    with pytest.raises(SourceFailed, match="created faster than their offsets can be read"):
        cluster(client).standing(may_lack=False)
