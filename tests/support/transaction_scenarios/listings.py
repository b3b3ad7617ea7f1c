"""FindCoordinator for transactions, DescribeTransactions, ListTransactions."""

import time

from ottla.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.transaction_scenarios.peer import TRANSACTION, Identity, TransactionPeer

FIRST_FIND_OF_MANY = 4


def ids_in_all_states(peer: TransactionPeer) -> dict[str, Identity]:
    ids = {}
    for state in ("empty", "ongoing", "committed", "aborted"):
        peer.use(state)
        ids[state] = at = peer.start()
        if state == "empty":
            continue
        peer.open(at)
        if state != "ongoing":
            peer.finish(at, 4, commits=state == "committed")
    peer.transactional_id = peer.topic
    return ids


def ids_are_described(peer: TransactionPeer) -> None:
    for state in ids_in_all_states(peer):
        peer.use(state)
        peer.note_transaction(state)
    peer.use("nobody")
    peer.note_transaction("nobody")
    peer.try_out("no name", peer.describe_transaction(""))
    several = peer.describe_transaction(f"{peer.topic}-empty", "nobody", "")
    peer.try_out("several", several)


def ids_are_listed_by_state(peer: TransactionPeer) -> None:
    ids_in_all_states(peer)
    for version in (0, 1, 2):
        peer.list_ids(f"v{version}, all", version)
        for states in (
            ("Ongoing",),
            ("Ongoing", "CompleteAbort"),
            ("Nonsense",),
            ("Nonsense", "Empty"),
            ("ongoing",),
            ("",),
            ("Dead", "PrepareEpochFence", "PrepareCommit", "PrepareAbort"),
            ("CompleteCommit", "CompleteCommit"),
        ):
            peer.list_ids(f"v{version}, {states}", version, state_filters=states)


def ids_are_listed_by_producer(peer: TransactionPeer) -> None:
    ids = ids_in_all_states(peer)
    committed = ids["committed"].id
    peer.list_ids("one", producer_id_filters=(committed,))
    peer.list_ids("two", producer_id_filters=(committed, ids["empty"].id))
    peer.list_ids("unknown", producer_id_filters=(10**12, -1))
    peer.list_ids("one of a state", producer_id_filters=(committed,), state_filters=("Ongoing",))


def ids_are_listed_by_duration(peer: TransactionPeer) -> None:
    ids_in_all_states(peer)
    time.sleep(0.05)
    for duration_ms in (-1, -7, 0, 1, 20, 3_600_000, 2**63 - 1):
        for version in (1, 2):
            what = f"v{version}, {duration_ms} ms"
            peer.list_ids(what, version, duration_filter=duration_ms)


def ids_are_listed_by_pattern(peer: TransactionPeer) -> None:
    ids_in_all_states(peer)
    for pattern in (".*", "-.*", "", "-committed", "-(committed|empty)", "-[a-e].*", "-COMMITTED"):
        peer.list_ids(f"its own, then {pattern}", transactional_id_pattern=peer.topic + pattern)
    for other in (
        None,
        "",
        ".*committed",
        "committed",
        "(?i).*COMMITTED",
        r"\d+",
        "[[:alpha:]]+",
    ):
        peer.list_ids(f"{other}", transactional_id_pattern=other)
    for pattern in ("(", "*a", "[", "(?=x)x", r"(a)\1", "a{2,1}"):
        peer.list_ids(f"invalid: {pattern}", transactional_id_pattern=pattern)


def coordinators_are_found(peer: TransactionPeer) -> None:
    for version in range(1, 7):
        for name in (peer.transactional_id, ""):
            if version < FIRST_FIND_OF_MANY:
                request = FindCoordinatorRequest(key=name, key_type=TRANSACTION)
                found = peer.ask(request, version)
            else:
                (found,) = peer.ask(peer.find(name), version).coordinators
            peer.note(f"v{version}", ErrorCode(found.error_code).name, found.node_id)
    several = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=("a", "b", "a"))
    peer.note("several", [each.key for each in peer.ask(several, 4).coordinators])


SCENES = (
    ids_are_described,
    ids_are_listed_by_state,
    ids_are_listed_by_producer,
    ids_are_listed_by_duration,
    ids_are_listed_by_pattern,
    coordinators_are_found,
)
