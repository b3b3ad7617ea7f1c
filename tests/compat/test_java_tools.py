"""Kafka's own command line tools work against the broker, and on its files."""

import json
import re
import shutil
from pathlib import Path

from confluent_kafka import Producer

from ottla.broker.requests.served_apis import SERVED
from ottla.protocol.messages import APIS
from ottla.testing import Broker
from tests.support.clients import QUICK_CLIENTS
from tests.support.clients.admins import LibrdkafkaAdmin
from tests.support.clients.client import (
    ANY_BYTES,
    CODECS,
    FIRST_TIMESTAMP_MS,
    WAIT_S,
    numbered,
    samples,
)
from tests.support.clients.kafka_python import KafkaPython
from tests.support.clients.librdkafka import Librdkafka
from tests.support.compat.java_tools import run_tool, try_tool
from tests.support.compat.kafka_dump_lines import by_file, kafka_lines, ottla_dump

RECORDS = 500
DAY_MS = 86_400_000


def test_every_api_that_is_offered_is_usable_by_java(servers: str) -> None:
    printed = run_tool("BrokerApiVersionsCommand", "--bootstrap-server", servers).decode()
    found = re.findall(r"\((\d+)\): [^\[\n]*\[usable: (\d+)\]", printed)
    assert {int(key): int(version) for key, version in found} == {
        key: APIS[key].versions[-1] for key in SERVED
    }


def test_topics_are_created_described_altered_and_deleted(servers: str, topic: str) -> None:
    def topics(*arguments: str) -> str:
        return run_tool("TopicCommand", "--bootstrap-server", servers, *arguments).decode()

    created = topics(
        "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=7"
    )
    assert f"Created topic {topic}." in created
    described = topics("--describe", "--topic", topic)
    assert re.search(
        r"PartitionCount: 3\tReplicationFactor: 1\tConfigs: .*retention.ms=7", described
    )
    assert len(re.findall(r"Leader: 1\tReplicas: 1\tIsr: 1\t", described)) == 3
    topics("--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in topics("--describe", "--topic", topic)
    topics("--delete", "--topic", topic)
    assert topic not in topics("--list").splitlines()


def test_a_client_is_throttled_by_its_quota(servers: str, topic: str) -> None:
    LibrdkafkaAdmin(servers).create(topic, 1, {})
    name = f"{topic}-client"
    rate = 20_000

    def configs(*arguments: str) -> str:
        of_client = ("--entity-type", "clients", "--entity-name", name)
        tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", servers)
        return run_tool(*tool, *arguments, *of_client).decode()

    configs("--alter", "--add-config", f"producer_byte_rate={rate},consumer_byte_rate={rate}")
    described = configs("--describe")
    assert f"Quota configs for client-id '{name}' are" in described
    assert f"producer_byte_rate={rate}.0" in described
    throttled_ms: list[float] = []
    settings = {
        "bootstrap.servers": servers,
        "throttle_cb": lambda e: throttled_ms.append(e.throttle_time),
        # All of it in one request: a second one would have to wait.
        "linger.ms": 1000,
    }
    unlimited = Producer({**settings, "client.id": "another"})
    limited = Producer({**settings, "client.id": name})
    for producer, is_throttled in ((unlimited, False), (limited, True)):
        # Eleven seconds of the rate are free. A slow machine may need many more for all of it.
        for _ in range(40):
            producer.produce(topic, bytes(rate))
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0
        producer.poll(0)
        assert bool(throttled_ms) is is_throttled
    configs("--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate")
    assert "byte_rate" not in configs("--describe")


def test_configs_are_changed_for_a_topic_and_for_all_brokers(servers: str, topic: str) -> None:
    LibrdkafkaAdmin(servers).create(topic, 1, {})

    def configs(*arguments: str) -> str:
        tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", servers)
        return run_tool(*tool, *arguments).decode()

    # A broker's setting would count in the other tests as well: this is the one it has.
    configs("--alter", "--topic", topic, "--add-config", "retention.ms=7,flush.ms=8")
    every = ("--entity-type", "brokers", "--entity-default")
    configs("--alter", *every, "--add-config", "log.retention.ms=-1")
    configs("--alter", "--topic", topic, "--delete-config", "flush.ms")
    described = configs("--describe", "--topic", topic)
    assert (
        "retention.ms=7 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=7, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=-1"
    ) in described
    assert "flush.ms" not in described
    configs("--alter", *every, "--delete-config", "log.retention.ms")


def test_a_topic_that_cannot_be_created_is_refused_for_its_reason(servers: str, topic: str) -> None:
    finished = try_tool(
        "TopicCommand",
        *("--bootstrap-server", servers, "--create", "--topic", topic),
        *("--replication-factor", "3"),
    )
    assert finished.returncode == 1
    assert b"replication factor of 3" in finished.stdout


def test_the_verifiable_producers_records_are_read_counted_deleted_and_dumped(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    told = run_tool(
        "VerifiableProducer",
        *(*servers, "--topic", topic, "--max-messages", str(RECORDS)),
        *("--message-create-time", str(FIRST_TIMESTAMP_MS), "--value-prefix", "3"),
    )
    events = [json.loads(line) for line in told.decode().splitlines()]
    assert [event["acked"] for event in events if event["name"] == "tool_data"] == [RECORDS]
    for reader in QUICK_CLIENTS:
        found = reader.read(broker.bootstrap_servers, topic, RECORDS)
        assert [record.value for record in found] == [b"3.%d" % each for each in range(RECORDS)]
        # It counts on from the time it is given, by its own clock.
        assert found[0].timestamp_ms >= FIRST_TIMESTAMP_MS
        assert found[-1].timestamp_ms < FIRST_TIMESTAMP_MS + DAY_MS

    def offset(time: str) -> str:
        printed = run_tool("GetOffsetShell", *servers, "--topic", topic, "--time", time)
        return printed.decode().strip()

    assert offset("-1") == f"{topic}:0:{RECORDS}"
    assert offset("-2") == f"{topic}:0:0"
    asked = {"partitions": [{"topic": topic, "partition": 0, "offset": 100}], "version": 1}
    (tmp_path / "deleted.json").write_text(json.dumps(asked))
    deleted = run_tool(
        "DeleteRecordsCommand", *servers, "--offset-json-file", str(tmp_path / "deleted.json")
    )
    assert f"partition: {topic}-0\tlow_watermark: 100" in deleted.decode()
    assert offset("-2") == f"{topic}:0:100"
    dumped = dump(*segments(broker, topic))
    assert len(re.findall(r"^\| offset: ", dumped, re.MULTILINE)) == RECORDS
    assert "isvalid: false" not in dumped


def test_the_largest_timestamp_is_found_where_it_was_written(servers: str, topic: str) -> None:
    sent = numbered(10, timestamps=True)
    Librdkafka().write(servers, topic, [*sent[5:], *sent[:5]], "zstd")
    found = run_tool(
        "GetOffsetShell", "--bootstrap-server", servers, "--topic", topic, "--time", "-3"
    )
    assert found.decode().strip() == f"{topic}:0:4"


def test_kafka_dumps_every_codec_as_we_do(broker: Broker, topic: str, tmp_path: Path) -> None:
    writer = KafkaPython()
    # A line tells only text from other text.
    sent = [each for each in samples(writer) if each.value != ANY_BYTES]
    for codec in CODECS:
        writer.write(broker.bootstrap_servers, topic, sent, codec)
    (segment,) = segments(broker, topic)
    # Ours reads nothing that a broker is writing to.
    copy = shutil.copy(segment, tmp_path)
    (ours,) = ottla_dump(Path(copy)).values()
    (kafkas,) = by_file(dump(segment)).values()
    assert kafka_lines(ours) == kafkas
    batches = [line for line in kafkas if line.startswith("baseOffset")]
    assert all(line.endswith("isvalid: true") for line in batches)
    codecs = {line.partition("compresscodec: ")[2].split()[0] for line in batches}
    assert codecs == set(CODECS)


def dump(segment: Path) -> str:
    """The output of Kafka's tool for each record of a segment."""
    return run_tool(
        "DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", str(segment)
    ).decode(errors="replace")


def segments(broker: Broker, topic: str) -> list[Path]:
    return sorted(Path(broker.directory, f"{topic}-0").glob("*.log"))
