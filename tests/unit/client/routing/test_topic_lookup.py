"""Many topics are looked up at once, and each is found or given up by itself."""

from typing import Any

import pytest

from ottla.client.errors import Refused
from ottla.client.options import ClientOptions
from ottla.client.routing.topology import Topic
from ottla.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest
from tests.sim.seams.loop import run
from tests.support.client.fake_blocking import FakeBlocking
from tests.support.client.fake_cluster import FakeCluster

NAMES = ["orders", "audit", "users"]


def metadata_asked(cluster: FakeCluster) -> list[list[str]]:
    """The topics that each Metadata request named."""

    def names(request: MetadataRequest) -> list[str]:
        return [each.name for each in request.topics or () if each.name is not None]

    return [
        names(request)
        for broker in cluster.brokers.values()
        for _, request in broker.asked_for("Metadata")
    ]


def test_many_topics_are_one_request() -> None:
    async def story() -> None:
        async with FakeCluster(2) as cluster, cluster.router() as router:
            cluster.leaders = {name: [1, 2] for name in NAMES}
            found = await router.topics(NAMES)
            assert list(found) == NAMES
            assert all(isinstance(each, Topic) for each in found.values())
            assert metadata_asked(cluster) == [NAMES]

    run(story())


def test_many_topics_are_one_request_of_the_blocking_client() -> None:
    cluster = FakeCluster(2)
    cluster.leaders = {name: [1, 2] for name in NAMES}
    found = FakeBlocking(cluster).client().find_topics(NAMES)
    assert all(isinstance(each, Topic) for each in found.values())
    assert metadata_asked(cluster) == [NAMES]


def test_only_missing_topics_are_requested_again() -> None:
    cluster = FakeCluster()
    cluster.leaders = {"orders": [1], "audit": [-1]}
    blocking = FakeBlocking(cluster)
    blocking.after_pauses[2] = lambda: cluster.leaders.update(audit=[1])
    found = blocking.client().find_topics(["orders", "audit"])
    assert all(isinstance(each, Topic) for each in found.values())
    assert metadata_asked(cluster) == [["orders", "audit"], ["audit"], ["audit"]]


@pytest.mark.parametrize("names", [["orders", "nowhere"], ["nowhere", "orders"]])
def test_an_unknown_topic_does_not_fail_the_others(names: list[str]) -> None:
    cluster = FakeCluster()
    cluster.leaders = {"orders": [1]}
    blocking = FakeBlocking(cluster)
    found: dict[str, Any] = blocking.client().find_topics(names)
    assert list(found) == names
    assert isinstance(found["orders"], Topic)
    assert found["nowhere"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert 0 < sum(blocking.pauses_ms) <= ClientOptions().unknown_topic_grace_ms


def test_a_missing_leader_is_retried_though_another_topic_does_not_exist() -> None:
    cluster = FakeCluster()
    cluster.leaders = {"orders": [-1]}
    blocking = FakeBlocking(cluster)
    blocking.after_pauses[20] = lambda: cluster.leaders.update(orders=[1])
    found: dict[str, Any] = blocking.client().find_topics(["nowhere", "orders"])
    assert isinstance(found["orders"], Topic)
    assert sum(blocking.pauses_ms) > ClientOptions().unknown_topic_grace_ms


def test_an_error_of_the_whole_metadata_response_is_raised() -> None:
    cluster = FakeCluster()
    good = cluster.brokers[1].answers["Metadata"]

    def refuse(request: Any, version: int) -> Any:
        answer = good(request, version)
        return type(answer)(brokers=(), cluster_id=None, controller_id=-1, topics=(), error_code=31)

    cluster.brokers[1].answers["Metadata"] = refuse
    with pytest.raises(Refused, match="CLUSTER_AUTHORIZATION_FAILED"):
        FakeBlocking(cluster).client().find_topics(["orders"])
