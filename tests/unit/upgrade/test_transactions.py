"""Transactions that an earlier version wrote read the same. The open one is aborted, and their
producers go on.
"""

import time

import pytest
from confluent_kafka import TopicPartition

from ottla.client.blocking.client import BlockingClient
from ottla.client.routing.coordinators import CoordinatorKey
from ottla.errors import ErrorCode
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.testing import Broker
from tests.support.cluster_contents import Json, kafka_python_admin
from tests.support.transaction_contents import settled_contents, stable_offsets
from tests.support.transactional_producer import TransactionalProducer
from tests.support.upgrade_cases import UpgradeCase, recorded

TOPIC, PARTITIONS = "payments", 2
# The transactional id, and the group, of the transaction that was open.
OPEN, PENDING = "open", "pending"


@pytest.fixture(params=recorded("transactions-killed"), ids=str)
def case(request: pytest.FixtureRequest) -> UpgradeCase:
    found: UpgradeCase = request.param
    return found


def test_clients_read_the_same_as_from_the_version_that_wrote_it(
    case: UpgradeCase, broker: Broker
) -> None:
    expected = case.expected
    del expected["incarnation"], expected["at_kill"]

    assert settled_contents(broker.bootstrap_servers) == expected


def test_what_was_recorded_holds_together(case: UpgradeCase) -> None:
    """Committed records are seen and no others. The open transaction held some of them back."""
    expected = case.expected
    for number, partition in enumerate(expected["topics"][TOPIC]["partitions"]):
        written = expected["uncommitted"][TOPIC][number]
        seen = [each for each in written if each["value"].endswith("committed")]
        assert partition["records"] == seen
        assert len(seen) < len(written)
        held_back = expected["at_kill"]["last_stable_offsets"][f"{TOPIC}-{number}"]
        assert written[-1] == seen[-1]
        assert held_back < written[-1]["offset"]
    states = {each["state"] for each in expected["at_kill"]["transactions"].values()}
    assert states == {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"}
    assert expected["features"] == {"transaction.version": 1}


def test_the_open_transaction_is_aborted_and_its_producer_fenced(
    case: UpgradeCase, broker: Broker
) -> None:
    found = settled_contents(broker.bootstrap_servers)

    before, after = case.expected["at_kill"]["transactions"][OPEN], found["transactions"][OPEN]
    assert (before["state"], after["state"]) == ("Ongoing", "CompleteAbort")
    assert after["producer_id"] == before["producer_id"]
    assert after["producer_epoch"] == before["producer_epoch"] + 1
    for number, partition in enumerate(found["topics"][TOPIC]["partitions"]):
        # The marker is the last.
        assert partition["end"] == found["uncommitted"][TOPIC][number][-1]["offset"] + 3
        assert found["last_stable_offsets"][f"{TOPIC}-{number}"] == partition["end"]
        assert not any(each["value"].endswith("open") for each in partition["records"])


def test_the_abort_drops_the_pending_offsets(case: UpgradeCase, broker: Broker) -> None:
    pending = {f"{TOPIC}-0": "pending", f"{TOPIC}-1": "pending"}
    assert case.expected["at_kill"]["stable_offsets"] == pending

    settled_contents(broker.bootstrap_servers)

    # One partition has the offset of before the transaction, the other has none.
    found = stable_offsets(broker.bootstrap_servers, PENDING, TOPIC)
    assert found == {f"{TOPIC}-0": 1, f"{TOPIC}-1": None}


def test_each_transactional_id_keeps_its_producer_id_and_commits_on(
    case: UpgradeCase, broker: Broker
) -> None:
    before = case.expected
    for name in before["transactions"]:
        write_transaction(broker.bootstrap_servers, name)

    written = settled_contents(broker.bootstrap_servers)
    broker.stop()
    broker.start()
    again = settled_contents(broker.bootstrap_servers)

    for found in (written, again):
        check_producers_went_on(before, found)
        check_new_records(before, found)
        assert found["groups"][PENDING]["offsets"][f"{TOPIC}-1"]["offset"] == 9
        assert found["features"] == before["features"]
    assert again["transactions"] == written["transactions"]
    assert again["uncommitted"] == written["uncommitted"]
    assert again["last_stable_offsets"] == written["last_stable_offsets"]


def test_a_commit_of_version_2_may_be_repeated_and_one_of_version_1_is_fenced(
    case: UpgradeCase, broker: Broker
) -> None:
    """The records say by which version each transaction was ended."""
    with kafka_python_admin(broker.bootstrap_servers) as admin:
        admin.update_features({"transaction.version": 2})

    for name, code in (("java", ErrorCode.NONE), ("first", ErrorCode.PRODUCER_FENCED)):
        known = case.expected["transactions"][name]
        assert known["state"] == "CompleteCommit"
        answer = commit_of_epoch_before(broker.bootstrap_servers, name, known)
        assert answer.error_code == code
        if code is ErrorCode.NONE:
            current = (known["producer_id"], known["producer_epoch"])
            assert (answer.producer_id, answer.producer_epoch) == current


# What is done


def write_transaction(servers: str, transactional_id: str) -> None:
    """A new producer of the id aborts a transaction, and commits one with an offset."""
    producer = TransactionalProducer(servers, transactional_id)
    now_ms = int(time.time() * 1000)
    for fate in ("aborted", "committed"):
        producer.begin()
        for number in range(PARTITIONS):
            producer.write(TOPIC, number, [f"new of {transactional_id} {fate}"], now_ms)
        offset = TopicPartition(TOPIC, 1, 9 if fate == "committed" else 8)
        producer.send_offsets(PENDING, offset)
        if fate == "committed":
            producer.commit()
        else:
            producer.abort()


def commit_of_epoch_before(servers: str, transactional_id: str, known: Json) -> EndTxnResponse:
    """As a client of version 2 sends it again if the first answer was lost."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=known["producer_id"],
        producer_epoch=known["producer_epoch"] - 1,
        committed=True,
    )
    key = CoordinatorKey(transactional_id, CoordinatorType.TRANSACTION)
    with BlockingClient(servers) as client:
        answer: EndTxnResponse = client.router.ask_coordinator(
            key, request, lambda answer: [answer.error_code]
        )
    return answer


# What must hold then


def check_producers_went_on(before: Json, found: Json) -> None:
    assert found["transactions"].keys() == before["transactions"].keys()
    for name, old in before["transactions"].items():
        new = found["transactions"][name]
        assert new["producer_id"] == old["producer_id"]
        assert new["producer_epoch"] == old["producer_epoch"] + 1
        assert new["state"] == "CompleteCommit"


def check_new_records(before: Json, found: Json) -> None:
    """After the old records: the committed ones alone, and the aborted ones as well."""
    for number in range(PARTITIONS):
        old = before["topics"][TOPIC]["partitions"][number]["records"]
        seen = found["topics"][TOPIC]["partitions"][number]["records"]
        assert seen[: len(old)] == old
        assert [each["value"] for each in seen[len(old) :]] == [
            f"new of {name} committed" for name in before["transactions"]
        ]
        old = before["uncommitted"][TOPIC][number]
        written = found["uncommitted"][TOPIC][number]
        assert written[: len(old)] == old
        assert [each["value"] for each in written[len(old) :]] == [
            f"new of {name} {fate}"
            for name in before["transactions"]
            for fate in ("aborted", "committed")
        ]
