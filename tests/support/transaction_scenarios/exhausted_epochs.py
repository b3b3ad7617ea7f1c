"""The last epoch of a producer id: the next one belongs to a new producer id."""

import socket
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from typing import BinaryIO

from ottla.errors import ErrorCode
from tests.support.transaction_scenarios.peer import (
    LONG_MS,
    WAIT_S,
    Identity,
    TransactionPeer,
)
from tests.support.transaction_scenarios.timeouts import before_the_timeout, until_aborted

# The highest epoch that a producer gets; one more is left for fencing.
LAST_EPOCH = 2**15 - 2
INIT_PRODUCER_ID = 22
AT_ONCE = 1024
# Version 0: a correlation id, the throttle time, a code, a producer id and its epoch.
ANSWER = struct.Struct(">iiihqh")


# Per broker, the transactional ids that are one epoch before the last, and their producers.
_made: dict[tuple[str, int], list[tuple[str, Identity]]] = {}


def before_the_last_epoch(peer: TransactionPeer) -> Identity:
    """The peer goes on with a transactional id that has one epoch left."""
    made = _made.setdefault(peer.address, [])
    if not made:
        names = [f"{peer.topic}-{number}" for number in range(len(SCENES))]
        made += zip(names, bumped(peer, names, LAST_EPOCH - 1), strict=True)
    peer.transactional_id, at = made.pop()
    peer.name_of(at.id)
    return at


def at_the_last_epoch(peer: TransactionPeer) -> Identity:
    before_the_last_epoch(peer)
    return peer.start()


def bumped(peer: TransactionPeer, names: Sequence[str], epoch: int) -> list[Identity]:
    """New transactional ids, by one InitProducerId after the other.

    Each id has a connection of its own: several at once take less time than one after the other.
    """
    for name in names:
        answer = peer.ask(peer.init_request(transactional_id=name))
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
    with ExitStack() as opened:
        connections = [
            opened.enter_context(socket.create_connection(peer.address, WAIT_S)) for _ in names
        ]
        readers = [opened.enter_context(each.makefile("rb")) for each in connections]
        for done in range(0, epoch, AT_ONCE):
            count = min(AT_ONCE, epoch - done)
            for connection, name in zip(connections, names, strict=True):
                connection.sendall(init_frame(name) * count)
            reached = [answered(each, count) for each in readers]
    assert {each.epoch for each in reached} == {epoch}
    return reached


def init_frame(name: str) -> bytes:
    encoded = name.encode()
    said = struct.pack(">hhihh", INIT_PRODUCER_ID, 0, 0, -1, len(encoded)) + encoded
    return struct.pack(">i", len(said) + 4) + said + struct.pack(">i", LONG_MS)


def answered(reader: BinaryIO, count: int) -> Identity:
    for _ in range(count):
        _, _, _, code, *told = ANSWER.unpack(reader.read(ANSWER.size))
        assert code == ErrorCode.NONE, ErrorCode(code)
    return Identity(*told)


def ended_at_the_last_epoch(peer: TransactionPeer) -> None:
    at = before_the_last_epoch(peer)
    for number in range(3):
        peer.store(at, 0, 12)
        following = peer.end(f"end {number}", at, 5)
        peer.end("again", at, 5)
        peer.end("and aborts", at, 5, commits=False)
        peer.init("with a producer id that nobody knows", at.of_another)
        peer.note_transaction("it stands")
        at = following
    peer.note_fetched("the log")


def renewed_at_the_last_epoch(peer: TransactionPeer) -> None:
    last = at_the_last_epoch(peer)
    peer.open(last)
    peer.store(last)
    peer.end("commits", last, 4)
    peer.until_complete()
    new = peer.init("renewed", last)
    peer.init("again", last)
    peer.open(new)
    peer.store(new)
    peer.end("commits", new, 4)
    peer.note_transaction("it stands")
    peer.init("the old one", last)
    peer.note_fetched("the log")


def fenced_at_the_last_epoch(peer: TransactionPeer) -> None:
    last = at_the_last_epoch(peer)
    peer.open(last)
    peer.store(last)
    new = peer.init("another")
    peer.note_transaction("it stands")
    peer.end("the old one commits", last, 4)
    peer.open(new)
    peer.store(new)
    peer.end("the new one commits", new, 4)
    peer.note_fetched("the log")


def timed_out_at_the_last_epoch(peer: TransactionPeer) -> None:
    """A client of version 2 aborts after its timeout, and goes on."""
    before_the_last_epoch(peer)
    last = peer.start(timeout_ms=peer.short_ms)
    with before_the_timeout(peer):
        peer.open(last)
        peer.store(last)
    until_aborted(peer)
    peer.note_transaction("it has timed out")
    new = peer.end("the zombie aborts", last, 5, commits=False)
    peer.init("and renews", last)
    peer.note_transaction("it stands")
    peer.open(new)
    peer.store(new)
    peer.end("commits", new, 5)
    peer.until_complete()
    peer.note_fetched("the log")


SCENES = (
    ended_at_the_last_epoch,
    renewed_at_the_last_epoch,
    fenced_at_the_last_epoch,
    timed_out_at_the_last_epoch,
)
