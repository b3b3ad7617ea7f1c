"""`ottla topic replicate`, `reassign` and `elect` against three brokers."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing.cluster import Cluster
from tests.support.cli.cluster_commands import ClusterCommands
from tests.support.cli.run_command import ottla

# A fetch of a follower has a part of the records, and the next one has to wait very long.
FETCH_BYTES = "1000"
SLOW = ("--throttle", "1")
LINE = "x" * 20 + "\n"
WAIT_S = 60.0


@pytest.fixture(scope="module")
def shared() -> Iterator[ClusterCommands]:
    settings = {
        "replica.fetch.max.bytes": FETCH_BYTES,
        "replica.fetch.response.max.bytes": FETCH_BYTES,
        "auto.leader.rebalance.enable": "false",
    }
    with Cluster(3, settings) as cluster:
        yield ClusterCommands(cluster)


@pytest.fixture
def run(shared: ClusterCommands) -> Iterator[ClusterCommands]:
    """A cluster without topics."""
    yield shared
    names = shared.done("topic", "list", "--internal", "-o", "name").stdout.split()
    if names:
        shared.done("topic", "delete", *names, "--yes")


def rates(run: ClusterCommands) -> str:
    """What `--status` says of throttles that are left."""
    return run.done("topic", "reassign", "--status").stderr


def test_a_factor_grows_with_the_present_replicas_and_their_records(run: ClusterCommands) -> None:
    run.create("orders", [[1], [1], [1]])
    for partition in "012":
        run.done("produce", "orders", "--partition", partition, text="a\nb\n")
    plan = run.done("topic", "replicate", "orders", "--factor", "3", "-o", "jsonl")
    assert {frozenset(row["adding"].split(",")) for row in plan.rows} == {frozenset("23")}
    assert [row["removing"] for row in plan.rows] == [""] * 3
    # Preferred leaders are spread.
    assert sorted(row["will_have"][0] for row in plan.rows) == ["1", "2", "3"]
    assert "nothing was changed: `--yes` copies 6 replicas" in plan.stderr
    assert run.replicas("orders") == [(1,)] * 3
    done = run.done("topic", "replicate", "orders", "--factor", "3", "--yes", "-o", "name")
    assert done.stderr.splitlines()[-1] == "done: 3 partitions have their replicas"
    rows = run.done("topic", "describe", "orders", "-o", "jsonl").rows_of("partition")
    assert all(sorted(row["isr"].split(",")) == ["1", "2", "3"] for row in rows)
    assert [str(row["leader"]) for row in rows] == [row["replicas"][0] for row in rows]
    for partition in "012":
        assert run.done("consume", "orders", "--partition", partition).stdout == "a\nb\n"
    again = run.done("topic", "replicate", "orders", "--factor", "3", "--yes")
    assert again.stderr == "every partition has 3 replicas already\n"


def test_a_factor_shrinks_evenly(run: ClusterCommands) -> None:
    run.create("orders", [[1, 2, 3]] * 3)
    run.done("topic", "replicate", "orders", "--factor", "1", "--yes", "-o", "name")
    assert sorted(run.replicas("orders")) == [(1,), (2,), (3,)]


def test_all_topics_are_replicated_with_the_internal_ones(run: ClusterCommands) -> None:
    run.create("orders", [[1]])
    run.done("group", "reset", "billing", "--to", "0", "-t", "orders", "--yes")
    run.done("topic", "replicate", "--all", "--factor", "2", "--yes", "-o", "name")
    assert len(run.replicas("orders")[0]) == 2
    assert {len(each) for each in run.replicas("__consumer_offsets")} == {2}
    assert run.done("group", "describe", "billing").exit_code == 0


def test_a_throttle_is_set_while_replicas_move_and_gone_afterwards(run: ClusterCommands) -> None:
    run.create("orders", [[1]])
    run.done("produce", "orders", text="a\n" * 1000)
    command = ("topic", "replicate", "orders", "--factor", "2", "--yes", "-o", "name")
    run.done(*command, "--throttle", "100000")
    assert run.configs("orders") == {}
    assert rates(run) == "no replicas are moving\n"


def test_topics_are_spread_over_the_named_brokers(run: ClusterCommands) -> None:
    run.create("orders", [[1, 2]] * 4)
    plan = run.done("topic", "reassign", "orders", "--brokers", "2,3", "-o", "jsonl")
    assert {row["adding"] for row in plan.rows} == {"3"}
    run.done("topic", "reassign", "orders", "--brokers", "2,3", "--yes", "-o", "name")
    assert all(set(each) == {2, 3} for each in run.replicas("orders"))
    assert sorted(each[0] for each in run.replicas("orders")) == [2, 2, 3, 3]
    again = run.done("topic", "reassign", "orders", "--brokers", "2,3")
    assert again.stderr == "all replicas are where they should be\n"


def test_a_plan_written_by_one_run_is_carried_out_by_another(
    run: ClusterCommands, tmp_path: Path
) -> None:
    run.create("orders", [[1, 2], [1, 2]])
    before = run.replicas("orders")
    file = tmp_path / "plan.json"
    file.write_text(run.done("topic", "reassign", "orders", "-o", "json").stdout)
    assert run.replicas("orders") == before
    wanted = {
        each["partition"]: tuple(each["replicas"])
        for each in json.loads(file.read_text())["partitions"]
    }
    assert wanted
    run.done("topic", "reassign", "--plan", str(file), "--yes", "-o", "name")
    after = dict(enumerate(run.replicas("orders")))
    assert after == dict(enumerate(before)) | wanted


@pytest.mark.parametrize(
    ("plan", "exit_code", "says"),
    [
        ('{"version": 1, "partitions": [', 1, "is not a reassignment plan"),
        ({"partitions": []}, 1, "is not a reassignment plan"),
        ([("ordres", 0, [1])], 4, "no topic 'ordres'; did you mean 'orders'?"),
        ([("orders", 7, [1])], 4, "topic orders has no partition 7"),
        ([("orders", 0, [1, 9])], 4, "no broker '9'"),
        ([("orders", 0, [2, 2])], 1, "is not a reassignment plan"),
    ],
)
def test_a_plan_that_does_not_fit_changes_nothing(
    run: ClusterCommands, tmp_path: Path, plan: object, exit_code: int, says: str
) -> None:
    run.create("orders", [[1], [1]])
    if isinstance(plan, list):
        named = [("orders", 1, [2]), *plan]
        entries = [{"topic": t, "partition": p, "replicas": r} for t, p, r in named]
        plan = {"version": 1, "partitions": entries}
    file = tmp_path / "plan.json"
    file.write_text(plan if isinstance(plan, str) else json.dumps(plan))
    ran = run("topic", "reassign", "--plan", str(file), "--yes")
    assert ran.exit_code == exit_code
    assert says in ran.stderr.splitlines()[0]
    assert run.replicas("orders") == [(1,), (1,)]


def test_a_plan_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    ran = ottla("topic", "reassign", "--plan", tmp_path / "none.json")
    assert (ran.exit_code, "does not exist" in ran.stderr) == (4, True)


@pytest.mark.parametrize(
    ("command", "exit_code", "says"),
    [
        (["replicate", "orders", "--factor", "4"], 1, "a replication factor of 4 needs 4 brokers"),
        (["reassign", "orders", "--brokers", "1,9"], 4, "no broker '9'"),
        (["reassign", "orders", "--brokers", "1,1"], 2, "--brokers has broker 1 twice"),
        (["reassign", "orders", "--brokers", "one"], 2, "is not a list of broker ids"),
        (["reassign", "orders", "--brokers", "1"], 1, "orders-0 has 2 replicas, which need 2"),
    ],
)
def test_brokers_that_do_not_suffice_change_nothing(
    run: ClusterCommands, command: list[str], exit_code: int, says: str
) -> None:
    run.create("orders", [[1, 2]])
    ran = run("topic", *command, "--yes")
    assert ran.exit_code == exit_code
    assert says in ran.stderr.splitlines()[0]
    assert run.replicas("orders") == [(1, 2)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["replicate", "--factor", "2"],
        ["replicate", "orders", "--all", "--factor", "2"],
        ["replicate", "orders"],
        ["replicate", "orders", "--factor", "0"],
        ["reassign"],
        ["reassign", "orders", "--plan", "file"],
        ["reassign", "--plan", "file", "--brokers", "1"],
        ["reassign", "--status", "--cancel"],
        ["reassign", "--cancel", "--all"],
        ["reassign", "orders", "--throttle", "0"],
        ["elect"],
        ["elect", "orders", "--all"],
    ],
)
def test_a_command_that_does_not_say_what_to_do_is_a_usage_error(arguments: list[str]) -> None:
    assert ottla("topic", *arguments).exit_code == 2


def fill(run: ClusterCommands, topic: str) -> None:
    """Several batches in partition 0, more than one fetch of a follower."""
    for _ in range(4):
        run.done("produce", topic, "--partition", "0", text=LINE * 50)


def begun(run: ClusterCommands, *arguments: str) -> subprocess.Popen[str]:
    """A command in its own process, whose moves have begun and are too slow to end."""
    process = run.process(*arguments, "--yes", "-o", "name", *SLOW)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("begun: "):
            return process
    raise AssertionError(f"it ended with {process.wait()}")


def interrupted(process: subprocess.Popen[str]) -> list[str]:
    """What a command says after Ctrl-C."""
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    return stderr.splitlines()


def test_an_interrupted_move_goes_on_is_shown_kept_from_others_and_cancelled(
    run: ClusterCommands,
) -> None:
    run.create("orders", [[1, 2], [2, 1]])
    fill(run, "orders")
    said = interrupted(begun(run, "topic", "replicate", "orders", "--factor", "3"))
    assert said[-4:] == [
        "the reassignment goes on without this command",
        "  `ottla topic reassign --status` shows it",
        "  `ottla topic reassign --cancel --yes` takes it back",
        "  `ottla topic reassign --status --yes` removes the throttle when it is done",
    ]
    # The empty partition is done.
    status = run.done("topic", "reassign", "--status", "-o", "jsonl")
    (row,) = [row for row in status.rows if row["name"] == "orders-0"]
    assert (row["adding"], row["removing"], row["bytes_left"] > 0) == ("3", "", True)
    assert run.configs("orders").keys() == {
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    }
    (cluster,) = run.done("cluster", "describe", "-o", "jsonl").rows_of("cluster")
    # A replica that is being added is not missing.
    assert (cluster["moving"] > 0, cluster["under_replicated"]) == (True, 0)
    ran = run("topic", "replicate", "orders", "--factor", "1", "--yes")
    assert ran.exit_code == 1
    assert ran.stderr.splitlines() == [
        "error: replicas of orders-0 are moving already",
        "  try: `ottla topic reassign --status` shows them; `--cancel` takes them back",
    ]
    plan = run.done("topic", "reassign", "--cancel", "-o", "name")
    assert plan.stdout == "orders-0\n"
    assert plan.stderr == "nothing was changed: `--yes` cancels 1 reassignment\n"
    cancelled = run.done("topic", "reassign", "--cancel", "--yes", "-o", "name")
    assert cancelled.stderr.splitlines()[0] == "cancelled 1 reassignment"
    assert cancelled.stderr.splitlines()[1].startswith("removed the replication throttle of topic")
    assert run.replicas("orders")[0] == (1, 2)
    assert run.configs("orders") == {}
    assert rates(run) == "no replicas are moving\n"
    assert "nothing to cancel" in run.done("topic", "reassign", "--cancel", "--yes").stderr


def test_a_throttle_that_was_left_is_named_and_removed_with_yes(run: ClusterCommands) -> None:
    run.create("orders", [[1]])
    fill(run, "orders")
    interrupted(begun(run, "topic", "reassign", "orders", "--brokers", "2"))
    for broker_id in (1, 2):
        # The rate is raised by hand, so that the move ends.
        run.alter_broker(broker_id, "leader.replication.throttled.rate", "1000000")
        run.alter_broker(broker_id, "follower.replication.throttled.rate", "1000000")
    run.until(lambda: run.replicas("orders") == [(2,)])
    named = "a replication throttle is set on topic orders, broker 1, broker 2: `--yes` removes it"
    assert named in rates(run)
    removed = run.done("topic", "reassign", "--status", "--yes").stderr
    assert "removed the replication throttle of topic orders, broker 1, broker 2" in removed
    assert rates(run) == "no replicas are moving\n"


def test_a_drain_is_cancelled_by_its_own_command(run: ClusterCommands) -> None:
    run.create("orders", [[1]])
    run.create("logs", [[2]])
    fill(run, "orders")
    said = interrupted(begun(run, "broker", "drain", "1"))
    assert "  `ottla broker drain 1 --cancel --yes` takes it back" in said
    run.done("broker", "drain", "1", "--cancel", "--yes")
    assert (run.replicas("orders"), run.replicas("logs")) == ([(1,)], [(2,)])
    assert rates(run) == "no replicas are moving\n"


def test_a_move_that_another_one_cancels_fails_and_leaves_no_throttle(
    run: ClusterCommands,
) -> None:
    run.create("orders", [[1]])
    fill(run, "orders")
    process = begun(run, "topic", "reassign", "orders", "--brokers", "2")
    run.done("topic", "reassign", "--cancel", "--yes")
    _, stderr = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1
    assert "error: orders-0 did not get the planned replicas" in stderr
    assert run.configs("orders") == {}
    assert rates(run) == "no replicas are moving\n"


def test_a_topic_that_is_deleted_meanwhile_is_named(run: ClusterCommands) -> None:
    run.create("orders", [[1]])
    run.create("logs", [[1]])
    fill(run, "orders")
    process = begun(run, "topic", "reassign", "--all", "--brokers", "2")
    run.done("topic", "delete", "orders", "--yes")
    _, stderr = process.communicate(timeout=WAIT_S)
    assert "warning: topic orders was deleted meanwhile" in stderr
    assert process.returncode == 0
    assert run.replicas("logs") == [(2,)]
    assert rates(run) == "no replicas are moving\n"


def test_a_move_outlives_the_controller_that_began_it(run: ClusterCommands) -> None:
    (cluster,) = run.done("cluster", "describe", "-o", "jsonl").rows_of("cluster")
    controller = cluster["controller"]
    source, target = sorted({1, 2, 3} - {controller})
    run.create("orders", [[source]])
    fill(run, "orders")
    process = begun(run, "topic", "reassign", "orders", "--brokers", str(target))
    run.cluster.kill(controller)
    try:
        for broker_id in (source, target):
            run.alter_broker(broker_id, "leader.replication.throttled.rate", "1000000")
            run.alter_broker(broker_id, "follower.replication.throttled.rate", "1000000")
        _, stderr = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, stderr
        assert run.replicas("orders") == [(target,)]
        assert run.configs("orders") == {}
        assert len(run.done("consume", "orders").stdout.splitlines()) == 200
    finally:
        run.cluster.restart(controller)
    assert rates(run) == "no replicas are moving\n"


def test_a_throttle_of_the_users_own_is_restored(run: ClusterCommands) -> None:
    run.create("orders", [[1]])
    run.done("produce", "orders", text="a\n")
    run.alter_broker(1, "leader.replication.throttled.rate", "500000")
    command = ("topic", "replicate", "orders", "--factor", "2", "--yes", "-o", "name")
    run.done(*command, "--throttle", "1000000")
    assert "a replication throttle is set on broker 1:" in rates(run)
    run.done("topic", "reassign", "--status", "--yes")


def test_preferred_leaders_lead_again(run: ClusterCommands) -> None:
    run.create("orders", [[1, 2], [2, 1], [3, 1]])
    run.cluster.restart(2)
    # The controller would do the same, some minutes later.
    led = run.done("topic", "describe", "orders", "-o", "jsonl").rows_of("partition")
    assert led[1]["leader"] == 1
    run.until(lambda: run("topic", "elect", "orders", "-o", "jsonl").exit_code == 0)
    led = run.done("topic", "describe", "orders", "-o", "jsonl").rows_of("partition")
    assert [row["leader"] for row in led] == [1, 2, 3]
    again = run.done("topic", "elect", "--all")
    assert again.stderr == "no election is needed\n"


def test_a_preferred_leader_that_is_down_is_an_error_with_the_partition(
    run: ClusterCommands,
) -> None:
    run.create("orders", [[3, 1], [1, 3]])
    run.cluster.kill(3)
    try:
        run.until(lambda: run.leaders("orders") == [1, 1])
        ran = run("topic", "elect", "orders", "-o", "jsonl")
        assert ran.exit_code == 1
        (row,) = ran.rows
        assert (row["name"], row["outcome"]) == ("orders-0", "PREFERRED_LEADER_NOT_AVAILABLE")
        assert "error: 1 partition got no new leader" in ran.stderr
    finally:
        run.cluster.restart(3)


def test_an_unclean_election_says_what_may_be_lost_and_needs_yes(run: ClusterCommands) -> None:
    run.create("orders", [[2, 3]])
    run.done("produce", "orders", text="a\n")
    # Broker 3 is not in sync when broker 2 goes.
    run.cluster.kill(3)
    try:
        run.until(lambda: run.in_sync("orders") == [(2,)])
        run.done("produce", "orders", text="b\n")
        run.cluster.kill(2)
        run.cluster.restart(3)
        run.until(lambda: run.leaders("orders") == [None])
        plan = run.done("topic", "elect", "orders", "--unclean", "-o", "jsonl")
        (row,) = plan.rows
        assert (row["name"], row["may_lead"]) == ("orders-0", "3")
        assert "records that were acknowledged: they are lost for good" in plan.stderr
        assert "nothing was changed: `--yes` elects leaders of 1 partition" in plan.stderr
        assert run.leaders("orders") == [None]
        run.done("topic", "elect", "orders", "--unclean", "--yes")
        run.until(lambda: run.leaders("orders") == [3])
        assert run.done("consume", "orders").stdout == "a\n"
    finally:
        run.cluster.restart(2)
        run.cluster.restart(3)
