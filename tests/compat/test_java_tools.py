"""Kafka's own command line tools work against the broker, and on its files."""

import json
import re
from pathlib import Path

from ottla.broker.served import SERVED
from ottla.protocol.messages import APIS
from ottla.testing import Broker
from tests.compat.java_tools import run_tool, try_tool

RECORDS = 500


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


def test_a_topic_that_cannot_be_created_is_refused_for_its_reason(servers: str, topic: str) -> None:
    finished = try_tool(
        "TopicCommand",
        *("--bootstrap-server", servers, "--create", "--topic", topic),
        *("--replication-factor", "3"),
    )
    assert finished.returncode == 1
    assert b"replication factor of 3" in finished.stdout


def test_what_the_verifiable_producer_wrote_is_counted_cut_and_dumped(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    told = run_tool(
        "VerifiableProducer", *servers, "--topic", topic, "--max-messages", str(RECORDS)
    )
    events = [json.loads(line) for line in told.decode().splitlines()]
    assert [event["acked"] for event in events if event["name"] == "tool_data"] == [RECORDS]

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
    [segment] = Path(broker.directory, f"{topic}-0").glob("*.log")
    dumped = run_tool("DumpLogSegments", "--deep-iteration", "--files", str(segment)).decode()
    assert len(re.findall(r"^\| offset: ", dumped, re.MULTILINE)) == RECORDS
    assert "isvalid: false" not in dumped
