"""AddPartitionsToTxn and AddOffsetsToTxn, as clients and as brokers send them."""

from tests.support.transaction_scenarios.peer import TransactionPeer

CLIENT_VERSIONS = range(4)
BROKER_VERSIONS = (4, 5)
OFFSETS_VERSIONS = range(5)
MISSING = 7


def a_client_adds_partitions(peer: TransactionPeer) -> None:
    for version in CLIENT_VERSIONS:
        peer.use(f"v{version}")
        at = peer.start()
        peer.try_out(f"v{version}, one", peer.add(at), version)
        peer.note_transaction("it stands")
        peer.try_out(f"v{version}, again", peer.add(at), version)
        peer.try_out(f"v{version}, both", peer.add(at, (0, 1)), version)
        peer.note_transaction("it stands")
        peer.end("commits", at, 4)
        peer.note_transaction("it stands")
        peer.try_out(f"v{version}, to the next transaction", peer.add(at, (1,)), version)
        peer.note_transaction("it stands")


def a_client_adds_partitions_that_cannot_be_added(peer: TransactionPeer) -> None:
    for version in CLIENT_VERSIONS:
        peer.use(f"v{version}")
        at = peer.start()
        peer.try_out(f"v{version}, one is missing", peer.add(at, (0, MISSING)), version)
        peer.try_out(f"v{version}, no such topic", peer.add(at, topic="nowhere"), version)
        offsets = peer.add(at, topic="__consumer_offsets")
        peer.try_out(f"v{version}, an internal topic", offsets, version)
        peer.note_transaction("it stands")


def a_stranger_adds_partitions(peer: TransactionPeer) -> None:
    for version in CLIENT_VERSIONS:
        peer.use(f"v{version}")
        peer.start()
        at = peer.start()
        for is_open in (False, True):
            if is_open:
                peer.open(at)
            peer.try_out(f"v{version}, an older epoch", peer.add(at.at(-1)), version)
            peer.try_out(f"v{version}, a higher epoch", peer.add(at.at(1)), version)
            peer.try_out(f"v{version}, another id", peer.add(at.of_another), version)
        peer.try_out(f"v{version}, unknown", peer.add(at, transactional_id="nobody"), version)
        peer.try_out(f"v{version}, no name", peer.add(at, transactional_id=""), version)
        peer.note_transaction("it stands")


def a_broker_verifies(peer: TransactionPeer) -> None:
    for version in BROKER_VERSIONS:
        peer.use(f"v{version}")
        at = peer.start()
        peer.try_out(f"v{version}, in no transaction", peer.verify(at), version)
        peer.note_transaction("it stands")
        peer.open(at)
        peer.try_out(f"v{version}, added", peer.verify(at), version)
        peer.try_out(f"v{version}, one is not added", peer.verify(at, (0, 1)), version)
        peer.try_out(f"v{version}, one is missing", peer.verify(at, (0, MISSING)), version)
        peer.note_transaction("it stands")
        peer.finish(at, 4)
        peer.try_out(f"v{version}, after the end", peer.verify(at), version)


def a_broker_adds(peer: TransactionPeer) -> None:
    for version in BROKER_VERSIONS:
        peer.use(f"v{version}")
        at = peer.start()
        peer.try_out(f"v{version}, one is missing", peer.verify(at, (0, 9), adds=True), version)
        peer.note_transaction("it stands")
        peer.try_out(f"v{version}, one", peer.verify(at, adds=True), version)
        peer.try_out(f"v{version}, both", peer.verify(at, (0, 1), adds=True), version)
        peer.note_transaction("it stands")
        at = peer.finish(at, 5)
        peer.try_out(f"v{version}, to the next", peer.verify(at, adds=True), version)
        peer.try_out(f"v{version}, to the last", peer.verify(at.at(-1), adds=True), version)


def a_broker_asks_for_a_stranger(peer: TransactionPeer) -> None:
    for version in BROKER_VERSIONS:
        for adds in (False, True):
            peer.use(f"v{version}-{adds}")
            peer.start()
            at = peer.start()
            peer.open(at)
            for what, request in {
                "an older epoch": peer.verify(at.at(-1), adds=adds),
                "a higher epoch": peer.verify(at.at(1), adds=adds),
                "another id": peer.verify(at.of_another, adds=adds),
                "unknown": peer.verify(at, adds=adds, transactional_id="nobody"),
                "no name": peer.verify(at, adds=adds, transactional_id=""),
            }.items():
                peer.try_out(f"v{version}, {what}", request, version)


def a_client_adds_the_offsets_of_a_group(peer: TransactionPeer) -> None:
    for version in OFFSETS_VERSIONS:
        peer.use(f"v{version}")
        peer.start()
        at = peer.start()
        peer.try_out(f"v{version}", peer.add_offsets(at), version)
        peer.note_transaction("it stands")
        for what, request in {
            "again": peer.add_offsets(at),
            "an older epoch": peer.add_offsets(at.at(-1)),
            "a higher epoch": peer.add_offsets(at.at(1)),
            "another id": peer.add_offsets(at.of_another),
            "unknown": peer.add_offsets(at, transactional_id="nobody"),
            "no name": peer.add_offsets(at, transactional_id=""),
            "a group without a name": peer.add_offsets(at, group=""),
        }.items():
            peer.try_out(f"v{version}, {what}", request, version)
        peer.end("aborts", at, 4, commits=False)
        peer.note_transaction("it stands")


SCENES = (
    a_client_adds_partitions,
    a_client_adds_partitions_that_cannot_be_added,
    a_stranger_adds_partitions,
    a_broker_verifies,
    a_broker_adds,
    a_broker_asks_for_a_stranger,
    a_client_adds_the_offsets_of_a_group,
)
