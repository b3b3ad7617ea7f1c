"""WriteTxnMarkers, and what readers see around transactions."""

from tests.support.transaction_scenarios.peer import Identity, TransactionPeer

VERSIONS = (1, 2)
MISSING = 7
STRANGER = 4_711_000


def nothing_is_there_to_be_marked(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        at = Identity(STRANGER + version, 0)
        missing = peer.marker(at, partitions=(MISSING,))
        peer.try_out(f"v{version}, no such partition", missing, version)
        peer.try_out(f"v{version}, no such topic", peer.marker(at, topic="nowhere"), version)
        some = peer.marker(at, partitions=(0, MISSING))
        peer.try_out(f"v{version}, one is missing", some, version)
        peer.note_fetched("the log")
        peer.note_producers("its producers")


def a_marker_is_written_twice(peer: TransactionPeer) -> None:
    at = peer.start()
    peer.open(at)
    peer.store(at)
    for _ in range(2):
        peer.try_out("aborts", peer.marker(at, commits=False), 1)
        peer.note_fetched("the log")
        peer.note_producers("its producers")
    peer.note_transaction("the coordinator has not heard of it")
    peer.try_produce("the next batch", at, 1)
    peer.end("commits", at, 4)
    peer.until_complete()
    peer.note_fetched("the log")


def a_marker_is_of_another_epoch(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        for transaction_version in (0, 1, 2):
            for later in (-1, 0, 1, 2):
                peer.use(f"v{version}-{transaction_version}-{later}")
                peer.start()
                at = peer.start()
                peer.open(at)
                peer.store(at)
                what = f"v{version}, level {transaction_version}, {later:+d}"
                for _ in range(2):
                    marker = peer.marker(
                        at.at(later), transaction_version=transaction_version, commits=False
                    )
                    peer.try_out(what, marker, version)
    peer.note_producers("its producers")
    peer.note_fetched("the log")


def a_marker_is_of_a_producer_without_a_transaction(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        for transaction_version in (0, 2):
            at = Identity(STRANGER + 10 * version + transaction_version, 5)
            for later in (0, 0, 1, -1, 0, 2):
                marker = peer.marker(at.at(later), transaction_version=transaction_version)
                peer.try_out(
                    f"v{version}, level {transaction_version}, {later:+d}", marker, version
                )
    peer.note_producers("its producers")


def a_marker_is_of_an_older_coordinator(peer: TransactionPeer) -> None:
    at = Identity(STRANGER, 0)
    for epoch in (0, 5, 4, -1, 5, 6):
        marker = peer.marker(at, coordinator_epoch=epoch)
        peer.try_out(f"coordinator epoch {epoch}", marker, 1)
    peer.note_producers("its producers")


def an_operator_ends_a_hanging_transaction(peer: TransactionPeer) -> None:
    at = peer.start()
    peer.open(at)
    peer.store(at)
    peer.note_producers("it hangs")
    peer.try_out("aborts", peer.marker(at, commits=False, coordinator_epoch=-1), 1)
    peer.note_producers("it does not hang")
    peer.note_fetched("the log")


def a_marker_ends_pending_offsets(peer: TransactionPeer) -> None:
    for commits in (True, False):
        peer.use(f"{commits}")
        at = peer.start()
        peer.try_out("pending", peer.txn_commit(at, 5), 5)
        peer.note_offsets("pending")
        marker = peer.marker(at, topic="__consumer_offsets", commits=commits)
        peer.try_out("a marker", marker, 1)
        peer.note_offsets("ended")


def readers_wait_for_the_end(peer: TransactionPeer) -> None:
    at = peer.start()
    peer.use("other")
    other = peer.start()
    peer.use("first")
    at = peer.start()
    peer.open(at)
    plain = Identity(-1, -1)
    peer.store(plain, transactional=False, named=False)
    peer.store(at, count=3)
    peer.store(plain, transactional=False, named=False)
    for committed in (True, False):
        peer.note_fetched("open", committed=committed)
    peer.use("other")
    peer.open(other)
    peer.store(other, count=2)
    peer.use("first")
    peer.finish(at, 4, commits=False)
    for committed in (True, False):
        peer.note_fetched("the first is aborted", committed=committed)
    peer.use("other")
    peer.finish(other, 4)
    for first in (0, 1, 4, 5, 7, 8, 9):
        peer.note_fetched(f"both have ended, from {first} on", first=first)
    peer.note_producers("its producers")


def aborted_transactions_are_listed_for_what_is_read(peer: TransactionPeer) -> None:
    at = peer.start()
    for number in range(6):
        peer.open(at)
        peer.store(at, 2 * number, count=2)
        peer.finish(at, 4, commits=number % 2 == 1)
    for first in (0, 1, 2, 3, 6, 8, 12, 17, 18):
        peer.note_fetched(f"from {first} on", first=first)


SCENES = (
    nothing_is_there_to_be_marked,
    a_marker_is_written_twice,
    a_marker_is_of_another_epoch,
    a_marker_is_of_a_producer_without_a_transaction,
    a_marker_is_of_an_older_coordinator,
    an_operator_ends_a_hanging_transaction,
    a_marker_ends_pending_offsets,
    readers_wait_for_the_end,
    aborted_transactions_are_listed_for_what_is_read,
)
