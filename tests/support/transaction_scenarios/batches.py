"""Produce with transactional batches: verification, fencing, sequence numbers.

Each refused batch has a transactional id of its own: Kafka remembers the sequence number of a batch
whose verification failed, and refuses later ones for it.
"""

from collections.abc import Callable
from typing import Any

from tests.support.transaction_scenarios.peer import NONE, Identity, TransactionPeer

VERSIONS = range(3, 14)
Prepare = Callable[[TransactionPeer], Identity]


def started(peer: TransactionPeer) -> Identity:
    """At an epoch that is not the first."""
    peer.start()
    return peer.start()


def opened(peer: TransactionPeer) -> Identity:
    at = started(peer)
    peer.open(at)
    return at


def begun(peer: TransactionPeer) -> Identity:
    """With one record."""
    at = opened(peer)
    peer.store(at)
    return at


def ended(peer: TransactionPeer) -> Identity:
    at = begun(peer)
    peer.finish(at, 4)
    return at


def each_version(
    what: str, prepare: Prepare, send: Callable[[TransactionPeer, Identity, int], object]
) -> Callable[[TransactionPeer], None]:
    """A scene of one batch in every version of Produce."""

    def scene(peer: TransactionPeer) -> None:
        for version in VERSIONS:
            peer.use(f"v{version}")
            at = prepare(peer)
            send(peer, at, version)
            peer.note_transaction("it stands")

    scene.__name__ = what.replace(" ", "_").replace(",", "")
    return scene


def batch(
    sequence: int = 0, seen: Callable[[Identity], Identity] = lambda at: at, **other: Any
) -> Callable[[TransactionPeer, Identity, int], object]:
    def send(peer: TransactionPeer, at: Identity, version: int) -> object:
        return peer.try_produce(f"v{version}", seen(at), sequence, version, **other)

    return send


def previous(at: Identity) -> Identity:
    return at.at(-1)


def higher(at: Identity) -> Identity:
    return at.at(1)


def another(at: Identity) -> Identity:
    return at.of_another


def a_transaction_of_some_batches(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.use(f"v{version}")
        at = opened(peer)
        for sequence in (0, 1, 1, 0, 5, 2):
            peer.try_produce(f"v{version}, number {sequence}", at, sequence, version)
        peer.note_producers("its producers")
        peer.finish(at, 4, commits=version % 2 == 0)
    peer.note_fetched("the log")


def a_producer_of_the_newest_kind(peer: TransactionPeer) -> None:
    """Adds nothing, and has a new epoch in every transaction."""
    at = peer.start()
    for number, version in enumerate((12, 13) * 3):
        peer.try_produce(f"v{version}", at, 0, version, partition=number % 2)
        peer.try_produce(f"v{version}, next", at, 1, version, partition=number % 2)
        peer.note_transaction("it stands")
        old, at = at, peer.finish(at, 5, commits=number % 3 != 0)
        peer.try_produce(f"v{version}, late", old, 2, version, partition=number % 2)
        peer.note_producers("its producers", number % 2)
    for partition in (0, 1):
        peer.note_fetched("a log", partition=partition)


def an_aborted_transaction_of_the_newest_kind_goes_on(peer: TransactionPeer) -> None:
    """Sequence numbers begin anew with each epoch."""
    at = peer.start()
    peer.store(at, 0, 12)
    at = peer.finish(at, 5, commits=False)
    peer.try_produce("the old sequence", at, 1, 12)
    peer.use("other")
    at = peer.start()
    peer.store(at, 0, 12)
    at = peer.finish(at, 5, commits=False)
    peer.try_produce("a new sequence", at, 0, 12)
    peer.end("commits", at, 5)
    peer.until_complete()
    peer.note_fetched("the log")


def one_batch_is_written_without_its_transaction(peer: TransactionPeer) -> None:
    """An idempotent batch of the same producer, before, in and after its transactions."""
    for version in (11, 12):
        for named in (True, False):
            peer.use(f"v{version}-{named}-before")
            at = peer.start()
            said: dict[str, Any] = {"transactional": False, "named": named}
            peer.try_produce(f"v{version}, before", at, 0, version, **said)
            peer.use(f"v{version}-{named}-in")
            at = begun(peer)
            peer.try_produce(f"v{version}, in the transaction", at, 1, version, **said)
            peer.finish(at, 4)
            peer.try_produce(f"v{version}, after it", at, 1, version, **said)
    peer.note_fetched("the log")


def no_transactional_id_is_told(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.use(f"v{version}")
        at = begun(peer)
        peer.try_produce(f"v{version}, no id", at, 1, version, named=False)
        peer.try_produce(f"v{version}, nothing", NONE, -1, version, transactional=False)


def a_transactional_batch_has_no_producer(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.try_produce(f"v{version}", NONE, -1, version)
    peer.note_fetched("the log")


def a_transactional_id_has_no_name(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        peer.use(f"v{version}")
        at = opened(peer)
        peer.try_produce(f"v{version}", at, 0, version, transactional_id="")


def another_transactional_id_is_told(peer: TransactionPeer) -> None:
    """An open transaction is not verified again."""
    for version in VERSIONS:
        peer.use(f"v{version}-open")
        at = begun(peer)
        peer.try_produce(f"v{version}, open", at, 1, version, transactional_id="nobody")
        peer.use(f"v{version}-new")
        at = opened(peer)
        peer.try_produce(f"v{version}, new", at, 0, version, transactional_id="nobody")


SCENES = (
    a_transaction_of_some_batches,
    a_producer_of_the_newest_kind,
    an_aborted_transaction_of_the_newest_kind_goes_on,
    one_batch_is_written_without_its_transaction,
    no_transactional_id_is_told,
    a_transactional_batch_has_no_producer,
    a_transactional_id_has_no_name,
    another_transactional_id_is_told,
    each_version("not added", started, batch()),
    each_version("not added, a later sequence", started, batch(5)),
    each_version("added", opened, batch()),
    each_version("added, a later sequence", opened, batch(5)),
    each_version("another partition is not added", begun, batch(partition=1)),
    each_version("an older epoch", opened, batch(0, previous)),
    each_version("a higher epoch", opened, batch(0, higher)),
    each_version("another producer", opened, batch(0, another)),
    each_version("an older epoch, begun", begun, batch(1, previous)),
    each_version("a higher epoch, begun", begun, batch(0, higher)),
    each_version("another producer, begun", begun, batch(0, another)),
    each_version("after the end", ended, batch(1)),
    each_version("after the end, of a sequence that was", ended, batch(0)),
)
