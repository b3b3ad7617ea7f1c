"""The current leader in answers to clients that asked another broker (KIP-951)."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.requests.current_leaders import CurrentLeaders
from ottla.broker.requests.produce_outcomes import ProduceOutcome, response
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Partition, Topic
from ottla.metadata.values import BrokerState, Endpoint, Incarnation
from ottla.protocol.primitives import Uuid
from ottla.replication.append.appender import AppendResult
from ottla.settings.listeners import SecurityProtocol

TOPIC_ID = Uuid(b"the topic's id..")
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
FENCED = ErrorCode.FENCED_LEADER_EPOCH


def broker(broker_id: int, listener: str = "INSIDE", state: BrokerState = BrokerState.UP) -> Broker:
    host = f"b{broker_id}"
    return Broker(
        broker_id=broker_id,
        epoch=broker_id * 10,
        inherits=None,
        endpoints=(
            Endpoint("BROKERS", host, 9091, SecurityProtocol.PLAINTEXT),
            Endpoint(listener, host, 9092, SecurityProtocol.PLAINTEXT),
        ),
        rack=f"rack {broker_id}",
        host=host,
        state=state,
    )


def leaders(leader: Incarnation | None, *brokers: Broker) -> CurrentLeaders:
    """Of a request to broker 1 by the listener INSIDE."""
    image = Image()
    for each in (broker(1), *brokers):
        image.apply(each)
    image.apply(Topic("events", TOPIC_ID))
    image.apply(
        Partition(
            topic_id=TOPIC_ID,
            index=0,
            replicas=(1, 2),
            leader=leader,
            leader_epoch=5,
            isr=() if leader is None else (leader,),
            min_isr=1,
            partition_epoch=7,
        )
    )
    services: Any = SimpleNamespace(
        identity=SimpleNamespace(node_id=1, advertised=None), image=image
    )
    session: Any = SimpleNamespace(listener="INSIDE", local_address=("127.0.0.1", 9092))
    return CurrentLeaders(services, session)


@pytest.mark.parametrize("topic", ["events", TOPIC_ID])
@pytest.mark.parametrize("code", [NOT_LEADER, FENCED])
def test_the_leader_is_named_with_its_epoch_and_its_address(
    topic: str | Uuid, code: ErrorCode
) -> None:
    named = leaders(Incarnation(2, 20), broker(2))
    assert named.find(topic, 0, code) == (2, 5)
    assert named.brokers == [(2, "b2", 9092, "rack 2", True)]


def test_a_leader_of_several_partitions_has_one_endpoint() -> None:
    named = leaders(Incarnation(2, 20), broker(2))
    assert named.find("events", 0, NOT_LEADER) == named.find("events", 0, FENCED) == (2, 5)
    assert [each.broker_id for each in named.brokers] == [2]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.CORRUPT_MESSAGE])
def test_other_errors_name_no_leader(code: ErrorCode) -> None:
    named = leaders(Incarnation(2, 20), broker(2))
    assert named.find("events", 0, code) is None
    assert named.brokers == []


def test_a_partition_without_a_leader_names_none() -> None:
    assert leaders(None, broker(2)).find("events", 0, NOT_LEADER) is None


@pytest.mark.parametrize(
    "leading", [broker(2, state=BrokerState.GONE), broker(2, listener="OUTSIDE")]
)
def test_a_leader_that_the_client_cannot_reach_is_not_named(leading: Broker) -> None:
    named = leaders(Incarnation(2, 20), leading)
    assert named.find("events", 0, NOT_LEADER) is None
    assert named.brokers == []


def test_a_broker_names_itself_for_an_old_epoch_only() -> None:
    named = leaders(Incarnation(1, 10))
    assert named.find("events", 0, NOT_LEADER) is None, "it lost its session"
    assert named.find("events", 0, FENCED) == (1, 5)
    assert named.brokers == [(1, "127.0.0.1", 9092, "rack 1", True)]


@pytest.mark.parametrize(
    ("topic", "index"), [("other", 0), (Uuid(b"another topic id"), 0), ("events", 1)]
)
def test_an_unknown_partition_names_no_leader(topic: str | Uuid, index: int) -> None:
    assert leaders(Incarnation(2, 20), broker(2)).find(topic, index, NOT_LEADER) is None


@pytest.mark.parametrize(("version", "named"), [(9, None), (10, (2, 5))])
def test_an_append_that_lost_its_leader_before_it_was_committed_names_the_next_one(
    version: int, named: tuple[int, int] | None
) -> None:
    of_two = leaders(Incarnation(2, 20), broker(2))
    produced = ProduceOutcome(0, appended=AppendResult(7, 8, -1, 0, 4, 1, is_settled=False))
    produced.error = PeerError(NOT_LEADER, "another one leads")
    answer = response([("events", [produced])], version, of_two._session, of_two._services)
    (result,) = answer.responses[0].partition_responses
    leader = result.current_leader
    assert (leader and (leader.leader_id, leader.leader_epoch)) == named
    assert [each.node_id for each in answer.node_endpoints] == ([] if named is None else [2])
