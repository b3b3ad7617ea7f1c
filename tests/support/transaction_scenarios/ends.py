"""EndTxn in every state, at every epoch, in every version."""

from collections.abc import Callable

from tests.support.transaction_scenarios.peer import Identity, TransactionPeer

VERSIONS = range(6)
STATES = ("empty", "ongoing", "committed", "aborted")
EPOCHS = ("current", "previous", "older", "higher", "another id")


def ends_in_every_state(version: int) -> Callable[[TransactionPeer], None]:
    def scene(peer: TransactionPeer) -> None:
        for state in STATES:
            for epoch in EPOCHS:
                for commits in (True, False):
                    end = "commits" if commits else "aborts"
                    peer.use(f"{state}-{epoch.replace(' ', '-')}-{end}")
                    at = bring_to(peer, state, version)
                    peer.note("begins", state, at.epoch)
                    peer.end(f"at {epoch} it {end}", seen(at, epoch), version, commits=commits)
                    peer.note_transaction("it stands")

    scene.__name__ = f"ends_in_every_state_v{version}"
    return scene


def bring_to(peer: TransactionPeer, state: str, version: int) -> Identity:
    """A transactional id in this state, with epochs before its own."""
    for _ in range(3):
        at = peer.start()
    if state == "empty":
        return at
    peer.open(at)
    if state == "ongoing":
        return at
    return peer.finish(at, version, commits=state == "committed")


def seen(at: Identity, epoch: str) -> Identity:
    later = {"current": 0, "previous": -1, "older": -2, "higher": 1}
    return at.of_another if epoch == "another id" else at.at(later[epoch])


def nobody_knows_the_id_that_ends(peer: TransactionPeer) -> None:
    for version in VERSIONS:
        for commits in (True, False):
            for name in ("nobody", ""):
                at = Identity(4_711_000, 0)
                peer.end(f"v{version}", at, version, commits=commits, transactional_id=name)


def an_answer_is_lost_and_the_end_repeated(peer: TransactionPeer) -> None:
    """The epoch tells a repeated EndTxn v5 from the end of the next transaction."""
    first = peer.start()
    peer.store(first, 0, 12)
    second = peer.end("commits", first, 5)
    peer.end("again", first, 5)
    peer.end("and aborts", first, 5, commits=False)
    peer.store(second, 0, 12)
    peer.end("again, in the next transaction", first, 5)
    peer.end("and aborts, in the next transaction", first, 5, commits=False)
    peer.note_transaction("it stands")
    third = peer.end("aborts the next", second, 5, commits=False)
    peer.end("again", second, 5, commits=False)
    peer.end("and commits", second, 5)
    peer.end("the first end, once more", first, 5)
    peer.end("aborts without a transaction", third, 5, commits=False)
    peer.note_transaction("it stands")
    peer.note_fetched("the log")


def old_and_new_clients_take_turns(peer: TransactionPeer) -> None:
    """Versions below 5 leave the epoch as it is."""
    at = peer.start()
    peer.open(at)
    peer.store(at)
    at = peer.end("the old one commits", at, 4)
    peer.until_complete()
    peer.open(at)
    peer.store(at, 1)
    new = peer.end("the new one commits", at, 5)
    peer.end("the new one again", at, 5)
    peer.end("the old one at its epoch", at, 4)
    peer.end("the old one at the next epoch", new, 4)
    peer.open(new)
    peer.store(new)
    peer.end("the old one aborts", new, 4, commits=False)
    peer.note_transaction("it stands")
    peer.end("the new one aborts", new, 5, commits=False)
    peer.note_transaction("it stands")
    peer.note_fetched("the log")
    peer.note_producers("its producers")


SCENES = (
    *map(ends_in_every_state, VERSIONS),
    nobody_knows_the_id_that_ends,
    an_answer_is_lost_and_the_end_repeated,
    old_and_new_clients_take_turns,
)
