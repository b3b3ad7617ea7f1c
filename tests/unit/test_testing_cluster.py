"""Several brokers inside the test process, as our users have them."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Cluster

WAIT_S = 120.0


def create(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (made,) = admin.create_topics([NewTopic(topic, 1, len(cluster.broker_ids))]).values()
    made.result(WAIT_S)


def produce(cluster: Cluster, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0


def read(cluster: Cluster, topic: str, count: int) -> list[bytes | None]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"}
    consumer = Consumer(settings | {"enable.auto.commit": "false"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=WAIT_S)]
    finally:
        consumer.close()


def test_a_record_survives_each_broker_in_turn() -> None:
    with Cluster(3, {"min.insync.replicas": "2"}) as cluster:
        create(cluster, "orders")
        addresses = cluster.bootstrap_servers
        values = []
        for broker_id in (1, 2, 3):
            cluster.kill(broker_id)
            assert broker_id not in cluster.broker_ids
            values.append(b"without %d" % broker_id)
            produce(cluster, "orders", values[-1])
            cluster.restart(broker_id)
        assert cluster.bootstrap_servers == addresses
        assert read(cluster, "orders", 3) == values


def test_a_broker_is_added_in_its_rack() -> None:
    with Cluster(1, racks=["a", "b"]) as cluster:
        cluster.add(2)
        assert cluster.broker_ids == [1, 2]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        described = admin.describe_cluster().result(WAIT_S)
        assert {node.id: node.rack for node in described.nodes} == {1: "a", 2: "b"}


def test_a_cluster_leaves_nothing_behind() -> None:
    cluster = Cluster(1)
    cluster.start()
    with pytest.raises(RuntimeError, match="already running"):
        cluster.start()
    with pytest.raises(RuntimeError, match="broker 1 is already running"):
        cluster.add(1)
    with pytest.raises(RuntimeError, match="broker 7 is not running"):
        cluster.kill(7)
    directory = Path(cluster._directory)
    assert directory.exists()
    cluster.close()
    assert not directory.exists()
    with pytest.raises(RuntimeError, match="no broker is running"):
        _ = cluster.bootstrap_servers


def test_a_setting_that_is_none_is_raised_in_the_test() -> None:
    cluster = Cluster(1, {"min.insync.replicas": "none"})
    with pytest.raises(Exception, match=r"min\.insync\.replicas"):
        cluster.start()
