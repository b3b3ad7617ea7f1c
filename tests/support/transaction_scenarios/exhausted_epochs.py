"""The last epoch of a producer id: the next one belongs to a new producer id."""

import socket
import struct

from ottla.errors import ErrorCode
from tests.support.transaction_scenarios.peer import (
    LONG_MS,
    WAIT_S,
    Identity,
    TransactionPeer,
)

# The highest epoch that a producer gets; one more is left for fencing.
LAST_EPOCH = 2**15 - 2
INIT_PRODUCER_ID = 22
AT_ONCE = 1024
# Version 0: a correlation id, the throttle time, a code, a producer id and its epoch.
ANSWER = struct.Struct(">iiihqh")


def bumped(peer: TransactionPeer, epoch: int) -> Identity:
    """By one InitProducerId after the other. All requests are the same bytes."""
    at = peer.start()
    name = peer.transactional_id.encode()
    said = struct.pack(">hhihh", INIT_PRODUCER_ID, 0, 0, -1, len(name)) + name
    frame = struct.pack(">i", len(said) + 4) + said + struct.pack(">i", LONG_MS)
    with socket.create_connection(peer.address, WAIT_S) as connection:
        answers = connection.makefile("rb")
        while at.epoch < epoch:
            count = min(AT_ONCE, epoch - at.epoch)
            connection.sendall(frame * count)
            for _ in range(count):
                _, _, _, code, *told = ANSWER.unpack(answers.read(ANSWER.size))
                assert code == ErrorCode.NONE, ErrorCode(code)
            at = Identity(*told)
        answers.close()
    return at


def ended_at_the_last_epoch(peer: TransactionPeer) -> None:
    at = bumped(peer, LAST_EPOCH - 1)
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
    last = bumped(peer, LAST_EPOCH)
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
    last = bumped(peer, LAST_EPOCH)
    peer.open(last)
    peer.store(last)
    new = peer.init("another")
    peer.note_transaction("it stands")
    peer.end("the old one commits", last, 4)
    peer.open(new)
    peer.store(new)
    peer.end("the new one commits", new, 4)
    peer.note_fetched("the log")


SCENES = (ended_at_the_last_epoch, renewed_at_the_last_epoch, fenced_at_the_last_epoch)
