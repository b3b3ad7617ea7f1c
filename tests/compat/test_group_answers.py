"""Group errors: our broker and Apache Kafka give the same responses."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Broker
from tests.support.compat.kafka_peer import kafka_peer
from tests.support.group_scenarios import classic, consumer, migration
from tests.support.group_scenarios.peer import Answers, Peer

TOPIC = "scenes"
PARTITIONS = 2
WAIT_S = 120.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.max.size": "2",
    "group.consumer.max.size": "2",
    # Longer than a scene takes, on whatever machine.
    "group.consumer.session.timeout.ms": "120000",
    "group.consumer.max.session.timeout.ms": "120000",
    # Nobody looks for groups that have neither members nor offsets while a scene is about one.
    "offsets.retention.check.interval.ms": "86400000",
    "group.consumer.assignment.interval.ms": "0",
    "auto.create.topics.enable": "false",
}
# Otherwise an assignment comes with some later heartbeat, and nobody knows which.
KAFKA_SETTINGS = SETTINGS | {"group.consumer.assignor.offload.enable": "false"}
Scene = Callable[[Peer], None]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    with kafka_peer(directory, KAFKA_SETTINGS) as servers:
        create_topic(servers)
        yield servers


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with Broker(SETTINGS) as broker:
        create_topic(broker.bootstrap_servers)
        yield broker.bootstrap_servers


def create_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(WAIT_S)


def played(scene: Scene, servers: str, group: str) -> Answers:
    with Peer(servers, group, TOPIC) as peer:
        scene(peer)
    return peer.answers


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(scene, id=f"{kind.__name__.rpartition('.')[2]}-{scene.__name__}")
        for kind in (classic, consumer, migration)
        for scene in kind.SCENES
    ],
)
def test_answers_are_kafkas(scene: Scene, ours: str, kafka: str) -> None:
    group = f"{scene.__name__}-{uuid4().hex[:8]}"
    expected = played(scene, kafka, group)
    assert len(expected) > 1
    assert played(scene, ours, group) == expected
