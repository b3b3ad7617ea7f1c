"""A transaction times out: the broker aborts it, and its producer is a zombie (KIP-588)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

from tests.support.transaction_scenarios.peer import Identity, TransactionPeer


class TooSlow(Exception):
    """A step took longer than the timeout of its transaction. The scene needs a longer one."""


@contextmanager
def before_the_timeout(peer: TransactionPeer) -> Iterator[None]:
    """For steps of a transaction that must not time out yet. TooSlow."""
    began = time.monotonic()
    try:
        yield
    finally:
        if time.monotonic() - began >= peer.short_ms / 1000:
            raise TooSlow


def timed_out(peer: TransactionPeer) -> Identity:
    """A producer whose transaction the broker has aborted."""
    at = left_open(peer)
    until_aborted(peer)
    return at


def left_open(peer: TransactionPeer) -> Identity:
    at = peer.start(timeout_ms=peer.short_ms)
    with before_the_timeout(peer):
        peer.open(at)
        peer.store(at)
    return at


def until_aborted(peer: TransactionPeer) -> None:
    peer.until(lambda: peer.state() == "CompleteAbort")


def the_zombie_ends_its_transaction(peer: TransactionPeer) -> None:
    zombies: dict[tuple[int, bool], Identity] = {}
    for version, commits in product(range(6), (True, False)):
        peer.use(f"v{version}-{commits}")
        zombies[version, commits] = left_open(peer)
    for (version, commits), at in zombies.items():
        peer.use(f"v{version}-{commits}")
        until_aborted(peer)
        peer.note_transaction("it has timed out")
        end = "commits" if commits else "aborts"
        peer.end(f"v{version}, the zombie {end}", at, version, commits=commits)
        peer.end(f"v{version}, at the next epoch", at.at(1), version, commits=commits)
        peer.note_transaction("it stands")


def the_zombie_renews(peer: TransactionPeer) -> None:
    for version in (3, 4, 5):
        peer.use(f"v{version}")
        at = timed_out(peer)
        peer.init(f"v{version}", at, version)
        peer.note_transaction("it stands")
        peer.init(f"v{version}, again", at, version)
        peer.init(f"v{version}, at the next epoch", at.at(1), version)
        peer.init(f"v{version}, another", version=version)


def the_zombie_had_renewed_before(peer: TransactionPeer) -> None:
    first = peer.start(timeout_ms=peer.short_ms)
    second = peer.init("renewed", first, timeout_ms=peer.short_ms)
    with before_the_timeout(peer):
        peer.open(second)
        peer.store(second)
    until_aborted(peer)
    peer.init("at the first epoch", first)
    peer.init("at the second epoch", second)
    peer.init("at the first epoch, again", first)
    peer.note_transaction("it stands")


def the_zombie_goes_on_as_if_nothing_were(peer: TransactionPeer) -> None:
    at = timed_out(peer)
    for version in range(3, 14):
        peer.try_produce(f"Produce v{version}", at, 1, version)
    for version in range(4):
        peer.try_out(f"AddPartitionsToTxn v{version}", peer.add(at), version)
    for version in range(5):
        peer.try_out(f"AddOffsetsToTxn v{version}", peer.add_offsets(at), version)
    for version in range(6):
        peer.try_out(f"TxnOffsetCommit v{version}", peer.txn_commit(at), version)
    peer.note_transaction("it stands")
    peer.note_fetched("the log")
    peer.note_producers("its producers")


def another_producer_follows_the_zombie(peer: TransactionPeer) -> None:
    at = timed_out(peer)
    new = peer.init("another")
    peer.open(new)
    peer.store(new)
    peer.end("the zombie commits", at, 5)
    peer.end("the zombie aborts", at, 5, commits=False)
    peer.end("the other commits", new, 5)
    peer.until_complete()
    peer.note_fetched("the log")


def offsets_of_the_zombie_are_gone(peer: TransactionPeer) -> None:
    at = peer.start(timeout_ms=peer.short_ms)
    with before_the_timeout(peer):
        peer.try_out("commits", peer.txn_commit(at, 5), 5)
        peer.note_offsets("pending")
    until_aborted(peer)
    peer.note_offsets("timed out")


def a_transaction_of_the_newest_kind_times_out(peer: TransactionPeer) -> None:
    at = peer.start(timeout_ms=peer.short_ms)
    with before_the_timeout(peer):
        peer.store(at, 0, 12)
        at = peer.finish(at, 5)
    with before_the_timeout(peer):
        peer.store(at, 0, 12)
    until_aborted(peer)
    peer.note_transaction("it has timed out")
    peer.try_produce("the next batch", at, 1, 12)
    peer.end("commits", at, 5)
    following = peer.end("aborts", at, 5, commits=False)
    with before_the_timeout(peer):
        peer.try_produce("the next transaction", following, 0, 12)
        peer.end("commits", following, 5)
    peer.until_complete()
    peer.note_fetched("the log")
    peer.note_producers("its producers")


SCENES = (
    the_zombie_ends_its_transaction,
    the_zombie_renews,
    the_zombie_had_renewed_before,
    the_zombie_goes_on_as_if_nothing_were,
    another_producer_follows_the_zombie,
    offsets_of_the_zombie_are_gone,
    a_transaction_of_the_newest_kind_times_out,
)
