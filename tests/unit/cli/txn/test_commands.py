"""`ottla txn …` against a fake cluster: rows, messages, refusals. tests/compat has real ones."""

import io
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.cli.shared.connect import client_failure
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import JsonLinesWriter
from ottla.cli.txn.abort import HangingTarget, abort_by_id, abort_hanging, parse_target
from ottla.cli.txn.hanging import find_hanging_transactions
from ottla.cli.txn.partition_name import TopicOrPartition
from ottla.cli.txn.show import (
    describe_transactions,
    list_transactions,
    parse_filter,
    show_producers,
)
from ottla.client.admin.transactions import EVERY_TRANSACTION, TransactionFilter
from ottla.client.errors import ClientError
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from tests.support.cli.run_command import ottla
from tests.support.client.fake_transactions import (
    NOW_MS,
    ORDERS,
    PRODUCER,
    USERS,
    FakeTransactions,
    with_transactions,
)

BY_OFFSET = HangingTarget(ORDERS, 5, None, None)
OPEN_ROW = {
    "kind": "transaction",
    "name": "orders:0",
    "start_offset": 5,
    "producer_id": 7,
    "producer_epoch": 3,
    "coordinator_epoch": None,
    "idle_seconds": 3_600,
}


def rows_of(
    command: Callable[[Router, JsonLinesWriter], Awaitable[None]],
    prepare: Callable[[FakeTransactions], None],
    *,
    failure: ExitCode | None = None,
) -> tuple[list[dict[str, Any]], FakeTransactions, Failure | None]:
    """Runs a command: its rows, the cluster afterwards, and its failure."""
    stream = io.StringIO()
    told: list[tuple[FakeTransactions, Failure | None]] = []

    async def story(fake: FakeTransactions, router: Router) -> None:
        prepare(fake)
        failed: Failure | None = None
        try:
            await command(router, JsonLinesWriter(stream))
        except Failure as error:
            failed = error
        except ClientError as error:
            failed = client_failure(error, "b1:9092")
        told.append((fake, failed))

    with_transactions(story)
    ((fake, failed),) = told
    assert (failed and failed.exit_code) == failure, failed
    return [json.loads(line) for line in stream.getvalue().splitlines()], fake, failed


def test_a_listing_says_who_coordinates() -> None:
    rows, _, _ = rows_of(
        lambda router, writer: list_transactions(router, EVERY_TRANSACTION, writer),
        lambda fake: fake.add("till"),
    )
    assert rows == [
        {
            "kind": "transaction",
            "name": "till",
            "state": "Ongoing",
            "producer_id": 7,
            "coordinator": 2,
        }
    ]


def test_a_pattern_that_a_broker_does_not_understand_is_a_usage_error() -> None:
    def prepare(fake: FakeTransactions) -> None:
        fake.list_code = ErrorCode.INVALID_REGULAR_EXPRESSION

    _, _, failed = rows_of(
        lambda router, writer: list_transactions(router, TransactionFilter(pattern="("), writer),
        prepare,
        failure=ExitCode.USAGE,
    )
    assert failed is not None
    assert failed.what == "--pattern '(' is not a regular expression of RE2"


def test_a_filter_by_age_is_about_open_transactions() -> None:
    """A coordinator would also list ids whose transaction is over, or that never had one."""
    assert parse_filter((), (), None, None) == EVERY_TRANSACTION
    assert parse_filter((), (7,), "15m", "till.*") == TransactionFilter(
        ("Ongoing", "PrepareCommit", "PrepareAbort"), (7,), 900_000, "till.*"
    )
    assert parse_filter(["completecommit"], (), "1s", None).states == ("CompleteCommit",)


def test_a_description_has_the_age_of_an_open_transaction_and_its_partitions() -> None:
    def prepare(fake: FakeTransactions) -> None:
        fake.add("till", USERS, ORDERS)
        fake.add("over", transaction_state="CompleteCommit")

    rows, _, _ = rows_of(
        lambda router, writer: describe_transactions(
            router, ["till", "over", "till"], writer, now_ms=NOW_MS
        ),
        prepare,
    )
    till, over, *partitions = rows
    assert till == {
        "kind": "transaction",
        "name": "till",
        "state": "Ongoing",
        "producer_id": 7,
        "producer_epoch": 3,
        "timeout_ms": 60_000,
        "open_seconds": 5,
        "coordinator": "b2:9092",
        "partitions": 2,
    }
    # A coordinator keeps the start time of a transaction that is over.
    assert (over["state"], over["open_seconds"]) == ("CompleteCommit", None)
    assert [row["partition"] for row in partitions] == ["orders:0", "users:1"]


def test_producers_of_a_topic_are_shown_partition_by_partition() -> None:
    def prepare(fake: FakeTransactions) -> None:
        fake.open(USERS, producer_id=9, current_txn_start_offset=-1, last_timestamp=-1)
        fake.open(USERS, coordinator_epoch=2)

    rows, _, _ = rows_of(
        lambda router, writer: show_producers(
            router, TopicOrPartition("users", None), writer, now_ms=NOW_MS
        ),
        prepare,
    )
    assert [(row["name"], row["producer_id"]) for row in rows] == [("users:1", 7), ("users:1", 9)]
    assert (rows[0]["coordinator_epoch"], rows[0]["open_since_offset"]) == (2, 5)
    assert (rows[1]["idle_seconds"], rows[1]["open_since_offset"]) == (None, None)


def test_a_search_is_incomplete_if_a_partition_was_not_examined(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def prepare(fake: FakeTransactions) -> None:
        fake.open(ORDERS)
        fake.producer_codes[USERS] = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    rows, _, failed = rows_of(
        lambda router, writer: find_hanging_transactions(
            router, None, writer, older_than_ms=900_000, now_ms=NOW_MS
        ),
        prepare,
        failure=ExitCode.FAILED,
    )
    assert rows == [OPEN_ROW]
    assert failed is not None
    assert failed.what == "1 partition of 3 could not be examined"
    assert capsys.readouterr().err.splitlines() == [
        "found 1 hanging transaction; `ottla txn abort orders:0 --start-offset 5` ends the first",
        "users:1 was not examined: producers of users-1: TOPIC_AUTHORIZATION_FAILED",
    ]


@pytest.mark.parametrize(
    "target",
    [
        BY_OFFSET,
        HangingTarget(ORDERS, None, PRODUCER.producer_id, None),
        HangingTarget(ORDERS, None, *PRODUCER),
    ],
    ids=str,
)
@pytest.mark.parametrize("may_act", [False, True])
def test_a_hanging_transaction_is_aborted_only_with_yes(
    target: HangingTarget, may_act: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, fake, _ = rows_of(
        lambda router, writer: abort_hanging(
            router, target, writer, may_act=may_act, now_ms=NOW_MS
        ),
        lambda fake: fake.open(ORDERS),
    )
    assert rows == [OPEN_ROW]
    assert len(fake.cluster.brokers[2].asked_for("WriteTxnMarkers")) == may_act
    done = f"aborted the transaction {target} in orders:0, verified by its leader\n"
    planned = "nothing was changed: `--yes` writes an abort marker; readers skip the transaction\n"
    assert capsys.readouterr().err == (done if may_act else planned)


@pytest.mark.parametrize(
    "target",
    [
        HangingTarget(ORDERS, 6, None, None),
        HangingTarget(ORDERS, None, 8, None),
        HangingTarget(ORDERS, None, PRODUCER.producer_id, PRODUCER.producer_epoch + 1),
    ],
    ids=str,
)
def test_a_transaction_that_is_not_open_is_not_found(target: HangingTarget) -> None:
    rows, fake, failed = rows_of(
        lambda router, writer: abort_hanging(router, target, writer, may_act=True, now_ms=NOW_MS),
        lambda fake: fake.open(ORDERS),
        failure=ExitCode.NOT_FOUND,
    )
    assert failed is not None
    assert failed.what == f"no transaction {target} is open in orders:0"
    assert (rows, fake.cluster.brokers[2].asked_for("WriteTxnMarkers")) == ([], [])


def test_a_transaction_that_its_coordinator_knows_is_not_torn_apart() -> None:
    def prepare(fake: FakeTransactions) -> None:
        fake.open(ORDERS)
        fake.add("till", ORDERS, USERS)

    rows, fake, failed = rows_of(
        lambda router, writer: abort_hanging(
            router, BY_OFFSET, writer, may_act=True, now_ms=NOW_MS
        ),
        prepare,
        failure=ExitCode.FAILED,
    )
    assert failed is not None
    assert failed.advice == "`ottla txn abort --id till`"
    assert (rows, fake.cluster.brokers[2].asked_for("WriteTxnMarkers")) == ([], [])


@pytest.mark.parametrize(
    ("code", "exit_code", "what"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, ExitCode.FAILED, "refused the marker"),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, ExitCode.FAILED, "refused the marker"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ExitCode.DENIED, "denied"),
    ],
)
def test_a_marker_that_is_refused_says_why(code: ErrorCode, exit_code: ExitCode, what: str) -> None:
    def prepare(fake: FakeTransactions) -> None:
        fake.open(ORDERS)
        fake.marker_codes = [code]

    _, _, failed = rows_of(
        lambda router, writer: abort_hanging(
            router, BY_OFFSET, writer, may_act=True, now_ms=NOW_MS
        ),
        prepare,
        failure=exit_code,
    )
    assert failed is not None
    assert failed.what.endswith(what)
    assert code.name in (failed.why or "")


def test_a_marker_without_effect_is_a_failed_check() -> None:
    def prepare(fake: FakeTransactions) -> None:
        fake.open(ORDERS)
        fake.applies_markers = False

    rows_of(
        lambda router, writer: abort_hanging(
            router, BY_OFFSET, writer, may_act=True, now_ms=NOW_MS
        ),
        prepare,
        failure=ExitCode.CHECK_FAILED,
    )


@pytest.mark.parametrize("may_act", [False, True])
def test_a_producer_is_fenced_only_with_yes(
    may_act: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, fake, _ = rows_of(
        lambda router, writer: abort_by_id(router, "till", writer, may_act=may_act, now_ms=NOW_MS),
        lambda fake: fake.add("till", ORDERS),
    )
    assert [(row["name"], row["state"]) for row in rows] == [("till", "Ongoing")]
    asked = fake.cluster.brokers[2].asked_for("InitProducerId")
    # The id keeps its timeout.
    assert [request.transaction_timeout_ms for _, request in asked] == [60_000] * may_act
    said = capsys.readouterr().err
    assert "fence" in said
    assert said.startswith("aborted" if may_act else "nothing was changed")


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort", "PrepareAbort"])
def test_a_producer_without_an_open_transaction_is_not_fenced(
    state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, fake, _ = rows_of(
        lambda router, writer: abort_by_id(router, "till", writer, may_act=True, now_ms=NOW_MS),
        lambda fake: fake.add("till", transaction_state=state),
    )
    assert fake.cluster.brokers[2].asked_for("InitProducerId") == []
    assert capsys.readouterr().err == f"there is nothing to abort: till is in state {state}\n"


def test_a_decided_commit_cannot_be_aborted() -> None:
    _, fake, failed = rows_of(
        lambda router, writer: abort_by_id(router, "till", writer, may_act=True, now_ms=NOW_MS),
        lambda fake: fake.add("till", ORDERS, transaction_state="PrepareCommit"),
        failure=ExitCode.FAILED,
    )
    assert failed is not None
    assert failed.what == "the transaction of till is being committed"
    assert fake.cluster.brokers[2].asked_for("InitProducerId") == []


def test_an_abort_by_id_of_a_missing_id_creates_none() -> None:
    _, fake, failed = rows_of(
        lambda router, writer: abort_by_id(router, "till", writer, may_act=True, now_ms=NOW_MS),
        lambda fake: None,
        failure=ExitCode.NOT_FOUND,
    )
    assert failed is not None
    assert failed.what == "no transactional id 'till'"
    assert fake.cluster.brokers[2].asked_for("InitProducerId") == []


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "no transaction is named"),
        (("orders",), "orders is a topic"),
        (("orders:0",), "give either --start-offset or --producer-id"),
        (
            ("orders:0", "--start-offset", "1", "--producer-id", "2"),
            "give either --start-offset or --producer-id",
        ),
        (
            ("orders:0", "--start-offset", "1", "--producer-epoch", "2"),
            "--producer-epoch needs --producer-id",
        ),
        (("--id", "till", "orders:0"), "--id names a transaction already"),
        (("--id", "till", "--producer-id", "1"), "--id names a transaction already"),
    ],
)
def test_an_abort_names_exactly_one_transaction(arguments: tuple[str, ...], what: str) -> None:
    ran = ottla("txn", "abort", *arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.splitlines()[0] == f"error: {what}"


def test_a_target_is_a_transaction_or_an_id() -> None:
    assert parse_target(None, "till", None, None, None) == "till"
    assert parse_target("orders:0", None, 5, None, None) == BY_OFFSET


@pytest.mark.parametrize("option", ["list", "find-hanging"])
def test_a_wrong_duration_is_a_usage_error(option: str) -> None:
    assert ottla("txn", option, "--older-than", "soon").exit_code == 2


def test_a_broker_that_is_away_is_unreachable() -> None:
    assert ottla("txn", "list", "-b", "127.0.0.1:1", "--timeout", "2").exit_code == 3
