"""TxnOffsetCommit and what OffsetFetch tells around it (KIP-447)."""

from typing import Any

from tests.support.transaction_scenarios.peer import Identity, TransactionPeer

VERSIONS = range(6)
# From here on the group's member is told.
MEMBER_VERSIONS = (3, 4, 5)
MISSING = 7


def a_group_was_not_added(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.use(f"v{version}")
        at = peer.start()
        peer.try_out(f"v{version}", peer.txn_commit(at), version)
        peer.note_transaction("it stands")
        peer.note_offsets("its offsets")


def offsets_are_committed_and_aborted(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.use(f"v{version}")
        at = peer.start()
        for number, commits in enumerate((False, True, True, False)):
            peer.try_out("add", peer.add_offsets(at), 3)
            peer.try_out(f"v{version}", peer.txn_commit(at, 10 + number), version)
            for stable in (True, False):
                peer.note_offsets(f"pending, stable={stable}", stable=stable)
                peer.note_offsets(f"pending, stable={stable}, v7", stable=stable, version=7)
            peer.note_offsets("pending, before stable offsets", stable=False, version=6)
            peer.end("ends", at, min(version, 4), commits=commits)
            peer.until_complete()
            peer.note_offsets("ended")


def a_stranger_commits_offsets(peer: TransactionPeer) -> None:
    """Nothing of the transaction is in the group's partition, so that each is verified."""
    for version in VERSIONS:
        for what in ("an older epoch", "a higher epoch", "another id", "unknown", "no name"):
            peer.use(f"v{version}-{what.replace(' ', '-')}")
            peer.start()
            at = peer.start()
            peer.open(at)
            request = {
                "an older epoch": peer.txn_commit(at.at(-1)),
                "a higher epoch": peer.txn_commit(at.at(1)),
                "another id": peer.txn_commit(at.of_another),
                "unknown": peer.txn_commit(at, transactional_id="nobody"),
                "no name": peer.txn_commit(at, transactional_id=""),
            }[what]
            peer.try_out(f"v{version}, {what}", request, version)
            peer.note_offsets("its offsets")


def a_stranger_commits_offsets_in_an_open_transaction(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.use(f"v{version}")
        peer.start()
        at = peer.start()
        peer.try_out("add", peer.add_offsets(at), 3)
        peer.try_out(f"v{version}", peer.txn_commit(at), version)
        for what, request in {
            "an older epoch": peer.txn_commit(at.at(-1)),
            "a higher epoch": peer.txn_commit(at.at(1)),
            "another id": peer.txn_commit(at.of_another),
        }.items():
            peer.try_out(f"v{version}, {what}", request, version)


def offsets_cannot_be_committed(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.use(f"v{version}")
        at = peer.start()
        peer.try_out("add", peer.add_offsets(at), 3)
        for what, request in {
            "no such topic": peer.txn_commit(at, topic="nowhere"),
            "no such partition": peer.txn_commit(at, partition=MISSING),
            "a group without a name": peer.txn_commit(at, group_id=""),
            "a negative offset": peer.txn_commit(at, -5),
        }.items():
            peer.try_out(f"v{version}, {what}", request, version)
        peer.end("commits", at, 4)
        peer.until_complete()
        peer.note_offsets("its offsets")


def a_group_has_no_members(peer: TransactionPeer) -> None:
    for version in MEMBER_VERSIONS:
        peer.use(f"v{version}")
        at = peer.start()
        peer.try_out("add", peer.add_offsets(at), 3)
        members: dict[str, dict[str, Any]] = {
            "a member of a generation": {"generation_id": 5, "member_id": "m"},
            "a generation": {"generation_id": 5},
            "a member": {"member_id": "m"},
            "an instance": {"group_instance_id": "i"},
            "nobody": {},
        }
        for what, said in members.items():
            peer.try_out(f"v{version}, {what}", peer.txn_commit(at, **said), version)


def a_classic_group_has_members(peer: TransactionPeer) -> None:
    member = peer.settle()
    own, generation = member.member_id, member.generation_id
    at = peer.start()
    peer.try_out("add", peer.add_offsets(at), 3)
    peer.try_out("v2", peer.txn_commit(at), 2)
    for version in MEMBER_VERSIONS:
        for what, said in {
            "the member": {"generation_id": generation, "member_id": own},
            "an older generation": {"generation_id": generation - 1, "member_id": own},
            "a later generation": {"generation_id": generation + 1, "member_id": own},
            "no generation": {"member_id": own},
            "no member": {"generation_id": generation},
            "a stranger": {"generation_id": generation, "member_id": "m"},
            "an unknown instance": {
                "generation_id": generation,
                "member_id": own,
                "group_instance_id": "i",
            },
            "nobody": {},
        }.items():
            peer.try_out(f"v{version}, {what}", peer.txn_commit(at, **said), version)


def a_static_member_was_replaced(peer: TransactionPeer) -> None:
    old = peer.settle(instance_id="i")
    at = peer.start()
    peer.try_out("add", peer.add_offsets(at), 3)
    new = peer.settle(instance_id="i")
    for version in MEMBER_VERSIONS:
        for what, member in {"the old one": old, "the new one": new}.items():
            request = peer.txn_commit(
                at,
                generation_id=member.generation_id,
                member_id=member.member_id,
                group_instance_id="i",
            )
            peer.try_out(f"v{version}, {what}", request, version)


def a_consumer_group_has_members(peer: TransactionPeer) -> None:
    joined = peer.ask(peer.enter("m"))
    epoch = joined.member_epoch
    at = peer.start()
    peer.try_out("add", peer.add_offsets(at), 3)
    peer.try_out("v2", peer.txn_commit(at), 2)
    for version in MEMBER_VERSIONS:
        for what, said in {
            "the member": {"generation_id": epoch, "member_id": "m"},
            "an older epoch": {"generation_id": epoch - 1, "member_id": "m"},
            "a later epoch": {"generation_id": epoch + 1, "member_id": "m"},
            "no epoch": {"member_id": "m"},
            "a stranger": {"generation_id": epoch, "member_id": "x"},
            "nobody": {},
        }.items():
            peer.try_out(f"v{version}, {what}", peer.txn_commit(at, **said), version)


def a_group_rebalances(peer: TransactionPeer) -> None:
    """A commit is taken while the next generation begins: Streams commits before it joins."""
    member = peer.settle()
    at = peer.start()
    peer.try_out("add", peer.add_offsets(at), 3)
    rejoined = peer.ask(peer.join(member.member_id), 3)
    for version in MEMBER_VERSIONS:
        for generation in (member.generation_id, rejoined.generation_id):
            said = {"generation_id": generation, "member_id": member.member_id}
            what = f"v{version}, generation {generation}"
            peer.try_out(what, peer.txn_commit(at, **said), version)


def plain_and_transactional_commits_interleave(peer: TransactionPeer) -> None:
    """A plain commit that was written after a pending one stays, even if that is committed."""
    at = peer.start()
    for commits in (True, False):
        peer.try_out("add", peer.add_offsets(at), 3)
        peer.try_out("plain", peer.commit(committed_offset=10), 8)
        peer.try_out("transactional", peer.txn_commit(at, 20), 3)
        peer.note_offsets("pending", stable=False)
        peer.try_out("plain, later", peer.commit(committed_offset=30), 8)
        peer.note_offsets("pending", stable=False)
        peer.note_offsets("pending, stable")
        peer.end("ends", at, 4, commits=commits)
        peer.until_complete()
        peer.note_offsets("ended")


def two_transactions_commit_for_one_partition(peer: TransactionPeer) -> None:
    group = peer.group
    producers: list[tuple[str, Identity]] = []
    for name in ("a", "b"):
        peer.use(name)
        producers.append((peer.transactional_id, peer.start()))
    peer.group = group
    for offset, (name, at) in enumerate(producers, 100):
        peer.transactional_id = name
        peer.try_out("commits", peer.txn_commit(at, offset), 5)
    peer.note_offsets("both pending")
    for name, at in reversed(producers):
        peer.transactional_id = name
        peer.end("ends", at, 5)
        peer.until_complete()
        peer.note_offsets("ended")


def a_group_is_deleted_while_offsets_are_pending(peer: TransactionPeer) -> None:
    at = peer.start()
    peer.try_out("pending", peer.txn_commit(at, 5), 5)
    peer.try_out("its offset is deleted", peer.forget())
    peer.note_offsets("pending")
    peer.try_out("it is deleted", peer.delete())
    peer.note_offsets("pending")
    peer.end("commits", at, 5)
    peer.until_complete()
    peer.note_offsets("ended")


SCENES = (
    a_group_was_not_added,
    offsets_are_committed_and_aborted,
    a_stranger_commits_offsets,
    a_stranger_commits_offsets_in_an_open_transaction,
    offsets_cannot_be_committed,
    a_group_has_no_members,
    a_classic_group_has_members,
    a_static_member_was_replaced,
    a_consumer_group_has_members,
    a_group_rebalances,
    plain_and_transactional_commits_interleave,
    two_transactions_commit_for_one_partition,
    a_group_is_deleted_while_offsets_are_pending,
)
