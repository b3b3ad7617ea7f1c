"""A broker inside the test process, as our users have it."""

import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from ottla.testing import Broker

WAIT_S = 120.0


def produce(broker: Broker, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0


def read(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"}
    consumer = Consumer(settings | {"enable.auto.commit": "false"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=WAIT_S)]
    finally:
        consumer.close()


def test_a_broker_keeps_its_data_from_one_start_to_the_next() -> None:
    broker = Broker()
    try:
        broker.start()
        produce(broker, "orders", b"one")
        broker.stop()
        broker.start()
        produce(broker, "orders", b"two")
        assert read(broker, "orders", 2) == [b"one", b"two"]
    finally:
        broker.close()
    assert not Path(broker.directory).exists()


DELAY = "group.initial.rebalance.delay.ms"


def config_of(broker: Broker, name: str) -> str:
    """The setting in force, as the broker itself tells it."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    (asked,) = admin.describe_configs([resource]).values()
    return str(asked.result(WAIT_S)[name].value)


def test_a_group_does_not_wait_for_more_members_unless_the_test_says_so() -> None:
    with Broker() as broker, Broker({DELAY: "3000"}) as patient:
        assert config_of(broker, DELAY) == "0"
        assert config_of(patient, DELAY) == "3000"


def test_several_brokers_live_in_one_process() -> None:
    with Broker() as one, Broker({"num.partitions": "3"}) as other:
        produce(one, "orders", b"one")
        produce(other, "orders", b"other")
        assert read(one, "orders", 1) == [b"one"]
        assert read(other, "orders", 1) == [b"other"]


def test_what_keeps_a_broker_from_starting_is_raised_in_the_test() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        broker = Broker({"listeners": f"PLAINTEXT://127.0.0.1:{port}"})
        with pytest.raises(OSError, match="address already in use"):
            broker.start()
        with pytest.raises(OSError, match="address already in use"):
            broker.close()
        with pytest.raises(RuntimeError, match="not running"):
            _ = broker.bootstrap_servers


def test_the_plugin_gives_a_broker_and_a_topic(ottla_broker: Broker, ottla_topic: str) -> None:
    produce(ottla_broker, ottla_topic, b"value")
    assert read(ottla_broker, ottla_topic, 1) == [b"value"]
