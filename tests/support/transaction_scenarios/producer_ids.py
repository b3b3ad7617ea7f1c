"""InitProducerId: new and renewed producers (KIP-360), fencing, timeouts that are not allowed."""

from tests.support.transaction_scenarios.peer import LONG_MS, Identity, TransactionPeer

VERSIONS = range(6)
RENEWING_VERSIONS = (3, 4, 5)
TIMEOUT_MAX_MS = 900_000


def a_producer_starts_and_another_follows(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.use(f"v{version}")
        peer.init(f"v{version}, new", version=version)
        peer.init(f"v{version}, another", version=version)
        peer.note_transaction("it stands")


def a_producer_renews_its_epoch(peer: TransactionPeer) -> None:
    for version in RENEWING_VERSIONS:
        peer.use(f"v{version}")
        old = peer.start()
        new = peer.init(f"v{version}, at the current epoch", old, version)
        peer.init(f"v{version}, at the last epoch", old, version)
        peer.init(f"v{version}, at the last epoch again", old, version)
        newer = peer.init(f"v{version}, at the current epoch", new, version)
        for what, at in {
            "at an older epoch": old,
            "at a higher epoch": newer.at(1),
            "with another producer id": newer.of_another,
            "with a producer id only": Identity(newer.id, -1),
            "with an epoch only": Identity(-1, newer.epoch),
            "with negative numbers": Identity(-2, -2),
        }.items():
            peer.init(f"v{version}, {what}", at, version)
        peer.note_transaction("it stands")


def a_producer_renews_after_another_came(peer: TransactionPeer) -> None:
    for version in RENEWING_VERSIONS:
        peer.use(f"v{version}")
        old = peer.start()
        new = peer.start()
        peer.init(f"v{version}, the old one", old, version)
        peer.init(f"v{version}, the new one", new, version)


def nobody_knows_the_id_that_is_renewed(peer: TransactionPeer) -> None:
    for version in RENEWING_VERSIONS:
        peer.use(f"v{version}")
        peer.init(f"v{version}", Identity(4_711_000, 3), version)
        peer.init(f"v{version}, again", Identity(4_711_000, 3), version)


def a_timeout_is_not_allowed(peer: TransactionPeer) -> None:
    for timeout_ms in (0, -1, TIMEOUT_MAX_MS, TIMEOUT_MAX_MS + 1, 1):
        peer.init(f"{timeout_ms} ms", timeout_ms=timeout_ms)
    peer.note_transaction("it stands")


def an_id_is_empty_or_missing(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.init(f"v{version}, empty", version=version, transactional_id="")
        peer.init(f"v{version}, none", version=version, transactional_id=None)
    peer.init("none, no timeout", transactional_id=None, timeout_ms=0)
    peer.init("none, of a producer", Identity(5, 5), transactional_id=None)


def a_producer_starts_while_another_has_a_transaction(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.use(f"v{version}")
        old = peer.start()
        peer.open(old)
        new = peer.init(f"v{version}", version=version)
        peer.note_transaction("it stands")
        peer.end("the old one commits", old, 4)
        peer.end("the new one commits", new, 4)


def a_producer_renews_in_its_transaction(peer: TransactionPeer) -> None:
    for version in RENEWING_VERSIONS:
        peer.use(f"v{version}-current")
        at = peer.start()
        peer.open(at)
        peer.init(f"v{version}, at the current epoch", at, version)
        peer.init(f"v{version}, again", at, version)
        peer.note_transaction("it stands")
        peer.init(f"v{version}, at the next epoch", at.at(1), version)
        peer.use(f"v{version}-last")
        old = peer.start()
        at = peer.init("renewed", old, version)
        peer.open(at)
        peer.init(f"v{version}, at the last epoch", old, version)
        peer.note_transaction("it stands")
        peer.use(f"v{version}-strange")
        at = peer.start()
        peer.open(at)
        peer.init(f"v{version}, with another producer id", at.of_another, version)
        peer.init(f"v{version}, with a timeout that is not allowed", at, version, timeout_ms=0)
        peer.note_transaction("it stands")


def a_producer_renews_after_its_transaction(peer: TransactionPeer) -> None:
    for end_version in (4, 5):
        for commits in (True, False):
            peer.use(f"v{end_version}-{commits}")
            old = peer.start()
            peer.open(old)
            new = peer.finish(old, end_version, commits=commits)
            peer.note("epoch", new.epoch)
            peer.init("at the epoch of the transaction", old)
            peer.init("at the epoch after it", new)
            peer.note_transaction("it stands")


def a_producer_changes_its_timeout(peer: TransactionPeer) -> None:
    at = peer.init("short", timeout_ms=LONG_MS)
    peer.note_transaction("it stands")
    peer.init("long, renewed", at, timeout_ms=2 * LONG_MS)
    peer.note_transaction("it stands")
    peer.init("short, another", timeout_ms=LONG_MS)
    peer.note_transaction("it stands")


SCENES = (
    a_producer_starts_and_another_follows,
    a_producer_renews_its_epoch,
    a_producer_renews_after_another_came,
    nobody_knows_the_id_that_is_renewed,
    a_timeout_is_not_allowed,
    an_id_is_empty_or_missing,
    a_producer_starts_while_another_has_a_transaction,
    a_producer_renews_in_its_transaction,
    a_producer_renews_after_its_transaction,
    a_producer_changes_its_timeout,
)
