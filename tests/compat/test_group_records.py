"""Kafka's own classes read our records of `__consumer_offsets` as they are meant, and we theirs."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given, settings

from ottla.coordinators.group.records import (
    ClassicGroupSaved,
    ClassicGroupTombstone,
    ClassicMetadata,
    ConsumerGroupSaved,
    ConsumerGroupTombstone,
    ConsumerMemberSaved,
    ConsumerMemberTombstone,
    CurrentAssignmentSaved,
    CurrentAssignmentTombstone,
    OffsetCommitted,
    OffsetTombstone,
    Record,
    RegexResolved,
    RegexTombstone,
    SavedMember,
    TargetAssignmentSaved,
    TargetAssignmentTombstone,
    TargetEpochSaved,
    TargetEpochTombstone,
    decode,
    encode,
)
from ottla.protocol.primitives import Uuid
from tests.support.compat.java_tools import JARS, JVM, WAIT_S, try_tool
from tests.support.coordinators.record_samples import KINDS, any_of

PROGRAM = Path(__file__).parent / "GroupRecords.java"
ORDERS, USERS = Uuid(bytes(range(16))), Uuid(b"\xff" * 16)
MEMBER = {"groupId": "g", "memberId": "m"}


class Meant(NamedTuple):
    """A record, and how Kafka's own JSON spells it."""

    record: Record
    type: int
    key: dict[str, Any]
    version: int = 0
    value: dict[str, Any] | None = None


def consumer_member(classic: ClassicMetadata | None, **said: Any) -> Meant:
    return Meant(
        ConsumerMemberSaved(
            "g",
            "m",
            "i",
            "r",
            "c",
            "/127.0.0.1",
            ("orders", "users"),
            "ord.*",
            300_000,
            "uniform",
            classic,
        ),
        5,
        MEMBER,
        0,
        {
            "instanceId": "i",
            "rackId": "r",
            "clientId": "c",
            "clientHost": "/127.0.0.1",
            "subscribedTopicNames": ["orders", "users"],
            "subscribedTopicRegex": "ord.*",
            "rebalanceTimeoutMs": 300_000,
            "serverAssignor": "uniform",
            **said,
        },
    )


MEANT = (
    Meant(
        OffsetCommitted("g", "orders", 3, 2**40, 7, "note ü", 1_794_780_893_379, topic_id=ORDERS),
        1,
        {"group": "g", "topic": "orders", "partition": 3},
        4,
        {
            "offset": 2**40,
            "leaderEpoch": 7,
            "metadata": "note ü",
            "commitTimestamp": 1_794_780_893_379,
            "topicId": str(ORDERS),
        },
    ),
    Meant(
        OffsetCommitted("g", "orders", 3, 5, metadata="", commit_ms=8, expire_ms=9),
        1,
        {"group": "g", "topic": "orders", "partition": 3},
        1,
        {"offset": 5, "metadata": "", "commitTimestamp": 8, "expireTimestamp": 9},
    ),
    Meant(OffsetTombstone("g", "orders", 3), 1, {"group": "g", "topic": "orders", "partition": 3}),
    Meant(
        ClassicGroupSaved(
            "g",
            "connect",
            4,
            "sessioned",
            "m",
            99,
            (SavedMember("m", "i", "c", "/127.0.0.1", 60_000, 45_000, b"\0sub", b"\xffass"),),
        ),
        2,
        {"group": "g"},
        3,
        {
            "protocolType": "connect",
            "generation": 4,
            "protocol": "sessioned",
            "leader": "m",
            "currentStateTimestamp": 99,
            "members": [
                {
                    "memberId": "m",
                    "groupInstanceId": "i",
                    "clientId": "c",
                    "clientHost": "/127.0.0.1",
                    "rebalanceTimeout": 60_000,
                    "sessionTimeout": 45_000,
                    "subscription": base64.b64encode(b"\0sub").decode(),
                    "assignment": base64.b64encode(b"\xffass").decode(),
                }
            ],
        },
    ),
    Meant(
        ClassicGroupSaved("g", "", 0, None, None, 99, ()),
        2,
        {"group": "g"},
        3,
        {
            "protocolType": "",
            "generation": 0,
            "protocol": None,
            "leader": None,
            "currentStateTimestamp": 99,
            "members": [],
        },
    ),
    Meant(ClassicGroupTombstone("g"), 2, {"group": "g"}),
    Meant(
        ConsumerGroupSaved("g", 3, -(2**60)),
        3,
        {"groupId": "g"},
        0,
        {"epoch": 3, "metadataHash": -(2**60)},
    ),
    Meant(ConsumerGroupTombstone("g"), 3, {"groupId": "g"}),
    consumer_member(None, classicMemberMetadata=None),
    # To Kafka a classic part that is not there is an empty one.
    consumer_member(ClassicMetadata(0, ())),
    consumer_member(
        ClassicMetadata(45_000, (("range", b"\0x"), ("cooperative-sticky", b""))),
        classicMemberMetadata={
            "sessionTimeoutMs": 45_000,
            "supportedProtocols": [
                {"name": "range", "metadata": base64.b64encode(b"\0x").decode()},
                {"name": "cooperative-sticky", "metadata": ""},
            ],
        },
    ),
    Meant(ConsumerMemberTombstone("g", "m"), 5, MEMBER),
    Meant(
        TargetEpochSaved("g", 3, 99),
        6,
        {"groupId": "g"},
        0,
        {"assignmentEpoch": 3, "assignmentTimestamp": 99},
    ),
    Meant(TargetEpochTombstone("g"), 6, {"groupId": "g"}),
    Meant(
        TargetAssignmentSaved("g", "m", {USERS: (0,), ORDERS: (1, 2)}),
        7,
        MEMBER,
        0,
        {
            "topicPartitions": [
                {"topicId": str(USERS), "partitions": [0]},
                {"topicId": str(ORDERS), "partitions": [1, 2]},
            ]
        },
    ),
    Meant(TargetAssignmentTombstone("g", "m"), 7, MEMBER),
    Meant(
        CurrentAssignmentSaved(
            "g", "m", 3, 2, 1, {ORDERS: (1, 2)}, {USERS: (0,)}, {ORDERS: (2, 3)}, {}
        ),
        8,
        MEMBER,
        0,
        {
            "memberEpoch": 3,
            "previousMemberEpoch": 2,
            "state": 1,
            "assignedPartitions": [
                {"topicId": str(ORDERS), "partitions": [1, 2], "assignmentEpochs": [2, 3]}
            ],
            "partitionsPendingRevocation": [{"topicId": str(USERS), "partitions": [0]}],
        },
    ),
    Meant(CurrentAssignmentTombstone("g", "m"), 8, MEMBER),
    Meant(
        RegexResolved("g", "ord.*", ("orders",), 12, 99),
        16,
        {"groupId": "g", "regularExpression": "ord.*"},
        0,
        {"topics": ["orders"], "version": 12, "timestamp": 99},
    ),
    Meant(RegexTombstone("g", "ord.*"), 16, {"groupId": "g", "regularExpression": "ord.*"}),
)


def ask_kafka(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Kafka's answer to each line; see the program."""
    if not any(JARS.glob("kafka-group-coordinator-*.jar")) or shutil.which("javac") is None:
        pytest.fail(
            f"Kafka's jars (in {JARS}) and a JDK are needed: run `make test`", pytrace=False
        )
    finished = subprocess.run(
        ["java", *JVM, "-cp", f"{JARS}/*", str(PROGRAM)],
        input="".join(f"{line}\n" for line in lines).encode(),
        capture_output=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        timeout=WAIT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr.decode()
    return [json.loads(line) for line in finished.stdout.splitlines()]


def as_bytes(record: Record) -> str:
    key, value = encode(record)
    return f"bytes {key.hex()} {'-' if value is None else value.hex()}"


def as_json(meant: Meant) -> str:
    def word(said: object) -> str:
        return base64.b64encode(json.dumps(said).encode()).decode()

    return f"json {meant.type} {word(meant.key)} {meant.version} {word(meant.value)}"


def in_hex(answer: dict[str, Any]) -> str:
    return f"bytes {answer['keyHex']} {answer['valueHex']}"


def decoded(answer: dict[str, Any]) -> Record | None:
    value = answer["valueHex"]
    return decode(bytes.fromhex(answer["keyHex"]), None if value == "-" else bytes.fromhex(value))


def test_every_kind_is_among_them() -> None:
    assert {type(meant.record) for meant in MEANT} == set(KINDS)


def test_kafka_reads_our_records_as_they_are_meant() -> None:
    for meant, answer in zip(
        MEANT, ask_kafka([as_bytes(meant.record) for meant in MEANT]), strict=True
    ):
        assert answer["type"] == meant.type
        assert answer["key"] == meant.key
        assert answer.get("value") == meant.value
        assert answer.get("version", 0) == meant.version
        assert in_hex(answer) == as_bytes(meant.record), "Kafka would have written other bytes"


def test_we_read_kafkas_records_as_they_are_meant() -> None:
    for meant, answer in zip(MEANT, ask_kafka([as_json(meant) for meant in MEANT]), strict=True):
        assert decoded(answer) == meant.record
        assert as_bytes(meant.record) == in_hex(answer)


def test_kafkas_tools_print_our_offsets_and_groups() -> None:
    answers = ask_kafka([as_bytes(meant.record) for meant in MEANT])
    for meant, answer in zip(MEANT, answers, strict=True):
        printed = {1: answer["offsetsFormatter"], 2: answer["groupFormatter"]}.get(meant.type)
        if printed is None:
            assert answer["offsetsFormatter"] == answer["groupFormatter"] == ""
            continue
        said = json.loads(printed)
        assert said["key"] == {"type": meant.type, "data": meant.key}
        value = meant.value and {"version": meant.version, "data": meant.value}
        assert said["value"] == value


def test_kafka_writes_whatever_we_write_to_the_same_bytes() -> None:
    lines = []
    for kind in KINDS:

        @given(record=any_of(kind))
        @settings(derandomize=True, deadline=None, max_examples=25, database=None)
        def collect(record: Record) -> None:
            lines.append(as_bytes(record))

        collect()
    assert len(lines) > 20 * len(KINDS)
    assert [in_hex(answer) for answer in ask_kafka(lines)] == lines


def test_kafkas_consumer_reads_offsets_of_committed_transactions_only(servers: str) -> None:
    """By the formatter of `kafka-console-consumer`, from our transactional batches and markers."""
    group = f"copy-{uuid4()}"
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    producer = Producer({"bootstrap.servers": servers, "transactional.id": group})
    topic = f"{group}-source"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(WAIT_S)
    producer.init_transactions(WAIT_S)
    for offset, end in (
        (11, producer.commit_transaction),
        (22, producer.abort_transaction),
        (33, producer.commit_transaction),
    ):
        producer.begin_transaction()
        offsets = [TopicPartition(topic, partition, offset) for partition in (0, 1)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
        end(WAIT_S)
    assert [each.offset for each in consumer.committed(offsets, WAIT_S)] == [33, 33]
    consumer.close()
    assert _read_offsets(servers, topic, "read_committed") == [11, 11, 33, 33]
    assert _read_offsets(servers, topic, "read_uncommitted") == [11, 11, 22, 22, 33, 33]


def _read_offsets(servers: str, topic: str, isolation_level: str) -> list[int]:
    """The offsets of a topic in the records of `__consumer_offsets`, in their order."""
    read = try_tool(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", servers, "--topic", "__consumer_offsets", "--from-beginning"),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
        *("--isolation-level", isolation_level, "--timeout-ms", "5000"),
        *("--command-property", "exclude.internal.topics=false"),
    )
    # The formatter writes no line ends.
    found = json.loads(f"[{read.stdout.decode().replace('}{', '},{')}]")
    return [
        each["value"]["data"]["offset"] for each in found if each["key"]["data"]["topic"] == topic
    ]
