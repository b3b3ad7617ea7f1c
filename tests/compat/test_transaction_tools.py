"""Kafka's own tools look at our transactions, and end them."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.testing import Broker
from tests.support.compat.java_tools import run_tool, try_tool
from tests.support.transaction_scenarios.peer import Identity, TransactionPeer

# Nobody asks the coordinator: a batch outside of any transaction hangs.
SETTINGS = {"transaction.partition.verification.enable": "false"}
FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"
EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT = 0, 1, 2, 4


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(SETTINGS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def peer(servers: str, topic: str) -> Iterator[TransactionPeer]:
    with TransactionPeer(servers, topic) as peer:
        yield peer


def transactions(servers: str, *arguments: str) -> list[dict[str, str]]:
    """The rows of a table that kafka-transactions prints, by the names of its columns."""
    printed = run_tool("TransactionsCommand", "--bootstrap-server", servers, *arguments)
    header, *rows = (
        [word.strip() for word in line.split("\t")] for line in printed.decode().splitlines()
    )
    return [dict(zip(header, row, strict=True)) for row in rows]


def try_transactions(servers: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return try_tool("TransactionsCommand", "--bootstrap-server", servers, *arguments)


def test_transactions_are_listed_and_described(servers: str, peer: TransactionPeer) -> None:
    peer.use("done")
    done = peer.start()
    peer.open(done)
    peer.store(done)
    peer.finish(done, 5)
    peer.use("open")
    ongoing = peer.start()
    peer.open(ongoing, (0, 1))
    listed = transactions(servers, "list", "--transactional-id-pattern", f"{peer.topic}-.*")
    assert [(row["TransactionalId"], row["TransactionState"]) for row in listed] == [
        (f"{peer.topic}-done", "CompleteCommit"),
        (f"{peer.topic}-open", "Ongoing"),
    ]
    (described,) = transactions(servers, "describe", "--transactional-id", f"{peer.topic}-open")
    assert described["ProducerId"] == str(ongoing.id)
    assert described["TopicPartitions"] == f"{peer.topic}-0,{peer.topic}-1"
    (producer,) = transactions(
        servers, "describe-producers", "--topic", peer.topic, "--partition", "0"
    )
    assert (producer["ProducerEpoch"], producer["CurrentTransactionStartOffset"]) == ("1", "None")


def test_an_unknown_transactional_id_is_told(servers: str) -> None:
    finished = try_transactions(servers, "describe", "--transactional-id", "nobody")
    assert finished.returncode == 1
    assert b"could not be found" in finished.stderr


def test_a_hanging_transaction_is_found_and_aborted(servers: str, peer: TransactionPeer) -> None:
    at = peer.start()
    peer.store(at)
    arguments = ("find-hanging", "--topic", peer.topic)
    (hanging,) = transactions(servers, *arguments)
    assert (hanging["ProducerId"], hanging["StartOffset"]) == (str(at.id), "0")
    abort = ("abort", "--topic", peer.topic, "--partition", "0", "--start-offset")
    finished = try_transactions(servers, *abort, "7")
    assert finished.returncode == 1
    assert b"Could not find any open transactions starting at offset 7" in finished.stderr
    assert try_transactions(servers, *abort, "0").returncode == 0
    assert transactions(servers, *arguments) == []
    peer.note_fetched("the log")
    ((_, seen),) = peer.answers
    assert seen == (
        "NONE",
        ("high watermark", 2),
        ("last stable offset", 2),
        ("aborted", [("id 1", 0)]),
        [("records", 0, 0, "id 1", 0, 0), ("ABORT", 1, 1, "id 1", 0, -1)],
    )


def test_a_transaction_is_terminated_by_force(servers: str, peer: TransactionPeer) -> None:
    at = peer.start()
    peer.open(at)
    peer.store(at)
    name = peer.transactional_id
    terminate = ("forceTerminateTransaction", "--transactionalId", name)
    finished = try_transactions(servers, *terminate)
    assert finished.returncode == 0, finished.stderr
    peer.until_complete()
    (described,) = transactions(servers, "describe", "--transactional-id", name)
    assert described["TransactionState"] in ("Empty", "CompleteAbort")
    assert int(described["ProducerEpoch"]) > at.epoch


def test_kafka_reads_our_transaction_log(servers: str, peer: TransactionPeer) -> None:
    at = peer.start()
    peer.open(at, (0, 1))
    peer.finish(at, 5)
    printed = run_tool(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", servers, "--topic", "__transaction_state", "--from-beginning"),
        *("--formatter", FORMATTER, "--timeout-ms", "5000"),
    )
    own = [
        each["value"]
        for each in objects(printed.decode())
        if each["key"] == {"type": 0, "data": {"transactionalId": peer.transactional_id}}
    ]
    partitions = [{"topic": peer.topic, "partitionIds": [0, 1]}]
    newest = {"clientTransactionVersion": 2}
    assert [untimed(value) for value in own] == [
        expected(at, EMPTY, None),
        expected(at, ONGOING, partitions),
        expected(at.at(1), PREPARE_COMMIT, partitions, **newest),
        expected(at.at(1), COMPLETE_COMMIT, [], **newest),
    ]


def expected(at: Identity, status: int, partitions: Any, **newest: int) -> dict[str, Any]:
    return {
        "version": 1,
        "producerId": at.id,
        "previousProducerId": at.id,
        "producerEpoch": at.epoch,
        "transactionTimeoutMs": 300_000,
        "transactionStatus": status,
        "transactionPartitions": partitions,
        **newest,
    }


def untimed(value: dict[str, Any]) -> dict[str, Any]:
    fields = {name: each for name, each in value["data"].items() if "Timestamp" not in name}
    return {"version": value["version"], **fields}


def objects(printed: str) -> list[dict[str, Any]]:
    """JSON objects that follow each other without a line's end."""
    found, position = [], 0
    decoder = json.JSONDecoder()
    while position < len(printed.rstrip()):
        each, position = decoder.raw_decode(printed, position)
        found.append(each)
    return found
