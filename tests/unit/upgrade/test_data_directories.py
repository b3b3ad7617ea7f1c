"""A data directory that an earlier version wrote opens, reads the same, and is written on."""

import struct
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Broker
from tests.support.cluster_contents import WAIT_S, Json, contents, without_epochs
from tests.support.raw_requests import produce
from tests.support.upgrade_cases import UpgradeCase, recorded

CASES = recorded("data-clean", "data-killed")
# Groups whose members have left. The members of the others may be over by now.
LEFT = ("classic", "consumer", "stale")
# Base offset and length, before the bytes that the length counts.
BATCH_PREFIX = struct.Struct(">qi")


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> UpgradeCase:
    found: UpgradeCase = request.param
    return found


def test_clients_read_the_same_as_from_the_version_that_wrote_it(
    case: UpgradeCase, broker: Broker
) -> None:
    expected = case.expected
    del expected["incarnation"]

    assert contents(broker.bootstrap_servers) == expected


def test_a_batch_that_is_sent_again_is_recognised(case: UpgradeCase, broker: Broker) -> None:
    batch = last_batch(Path(broker.directory) / "idempotent-0")
    base_offset, _ = BATCH_PREFIX.unpack_from(batch)

    answer = produce(broker.bootstrap_servers, "idempotent", 0, bytes(8) + batch[8:])

    assert answer == (KafkaError.NO_ERROR, base_offset)
    end = case.expected["topics"]["idempotent"]["partitions"][0]["end"]
    assert end_offset(broker.bootstrap_servers, "idempotent", 0) == end


def test_new_records_offsets_and_topics_are_there_after_a_restart(
    case: UpgradeCase, broker: Broker
) -> None:
    before = case.expected
    append_everywhere(broker.bootstrap_servers, before)
    for group in ("classic", "consumer"):
        read_on(broker.bootstrap_servers, group, before)
    delete_records(broker.bootstrap_servers, "trimmed", 0, 45)
    delete_records(broker.bootstrap_servers, "codecs", 1, 6)
    renew(broker.bootstrap_servers, "renewed", "gone")

    written = contents(broker.bootstrap_servers)
    broker.stop()
    broker.start()
    again = contents(broker.bootstrap_servers)

    check_appended(before, written)
    check_starts(before, written)
    check_renewed(before, written)
    for found in (written, again):
        for group in ("classic", "consumer"):
            assert committed(found, group) == {
                **committed(before, group, but="renewed-0"),
                "codecs-0": committed(before, group)["codecs-0"] + 1,
            }
    assert lasting(again) == lasting(written)


# What is done


def append_everywhere(servers: str, before: Json) -> None:
    """A record to each partition of each topic, by one idempotent producer."""
    refused: list[KafkaError] = []

    def told(error: KafkaError | None, _record: Message) -> None:
        if error is not None:
            refused.append(error)

    settings = {"bootstrap.servers": servers, "enable.idempotence": "true", "on_delivery": told}
    producer = Producer(settings)
    for topic, content in before["topics"].items():
        for number in range(len(content["partitions"])):
            producer.produce(topic, b"appended", key=b"new", partition=number)
    assert producer.flush(WAIT_S) == 0
    assert refused == []


def read_on(servers: str, group: str, before: Json) -> None:
    """A new member reads one record of codecs-0 where its group was, and commits it."""
    settings = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": group,
        "enable.auto.commit": "false",
        "auto.offset.reset": "error",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe(["codecs"])
        first: dict[int, int] = {}
        while len(first) < len(before["topics"]["codecs"]["partitions"]):
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None, message.error()
            first.setdefault(message.partition(), message.offset())
        assert {f"codecs-{each}": offset for each, offset in first.items()} == {
            name: offset
            for name, offset in committed(before, group).items()
            if name.startswith("codecs-")
        }
        offsets = [TopicPartition("codecs", 0, first[0] + 1)]
        consumer.commit(offsets=offsets, asynchronous=False)


def delete_records(servers: str, topic: str, partition: int, before: int) -> None:
    wanted = TopicPartition(topic, partition, before)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_records([wanted])[wanted].result(WAIT_S)


def renew(servers: str, present: str, absent: str) -> None:
    """Deletes a topic and makes it again, and one that was deleted in the earlier version."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([present])[present].result(WAIT_S)
    for topic in (present, absent):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S)


# What must hold then


def check_appended(before: Json, written: Json) -> None:
    """Every partition has its old records and the new one; the producer's id is a new one."""
    old_ids = {
        each["producer_id"]
        for content in before["topics"].values()
        for partition in content["partitions"]
        for each in partition["producers"]
    }
    for topic, content in before["topics"].items():
        if topic == "renewed":
            continue
        for old, new in zip(
            content["partitions"], written["topics"][topic]["partitions"], strict=True
        ):
            kept = [each for each in old["records"] if each["offset"] >= new["start"]]
            assert new["end"] == old["end"] + 1
            assert new["records"][:-1] == kept
            last = new["records"][-1]
            assert (last["offset"], last["value"]) == (old["end"], "appended")
            assert last["leader_epoch"] == new["leader_epoch"] == old["leader_epoch"]
            *others, newest = new["producers"]
            assert others == old["producers"]
            assert newest["producer_id"] > max(old_ids)


def check_starts(before: Json, written: Json) -> None:
    wanted = {
        (topic, number): partition["start"]
        for topic, content in before["topics"].items()
        for number, partition in enumerate(content["partitions"])
        if topic != "renewed"
    }
    wanted |= {("trimmed", 0): 45, ("codecs", 1): 6}
    assert wanted == {
        (topic, number): written["topics"][topic]["partitions"][number]["start"]
        for topic, number in wanted
    }


def check_renewed(before: Json, written: Json) -> None:
    """Both topics are empty, and their leader epochs are above all that their names have had."""
    for topic in ("renewed", "gone"):
        (partition,) = written["topics"][topic]["partitions"]
        assert (partition["start"], partition["end"]) == (0, 0)
    (old,) = before["topics"]["renewed"]["partitions"]
    (new,) = written["topics"]["renewed"]["partitions"]
    assert new["leader_epoch"] > old["leader_epoch"]
    assert written["topics"]["renewed"]["topic_id"] != before["topics"]["renewed"]["topic_id"]
    # Of its first life, in which the broker was not restarted, it had epoch 0.
    assert written["topics"]["gone"]["partitions"][0]["leader_epoch"] > 0


def committed(found: Json, group: str, but: str = "") -> dict[str, int]:
    offsets = found["groups"][group]["offsets"]
    return {name: each["offset"] for name, each in offsets.items() if name != but}


def lasting(found: Json) -> Json:
    groups = {group: found["groups"][group] for group in LEFT}
    return without_epochs(found) | {"groups": groups}


# How it is looked at


def last_batch(directory: Path) -> bytes:
    """The last batch of a partition, as it is in the segment."""
    content = max(directory.glob("*.log")).read_bytes()
    position = 0
    while True:
        _, length = BATCH_PREFIX.unpack_from(content, position)
        end = position + BATCH_PREFIX.size + length
        if end == len(content):
            return content[position:]
        position = end


def end_offset(servers: str, topic: str, partition: int) -> int:
    settings = {"bootstrap.servers": servers, "group.id": "none"}
    with closing(Consumer(settings)) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), WAIT_S)
        return int(end)
