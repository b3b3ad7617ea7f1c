"""UpdateFeatures: transaction.version down and up again."""

from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.messages.update_features import FeatureUpdate, UpdateFeaturesRequest
from tests.support.transaction_scenarios.peer import TransactionPeer

FEATURE = "transaction.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def update(
    peer: TransactionPeer, what: str, level: int, version: int, feature: str = FEATURE, **other: Any
) -> None:
    tell(peer, what, peer.ask(peer.update_feature(feature, level, **other), version), version)


def tell(peer: TransactionPeer, what: str, answer: Any, version: int) -> None:
    """Notes an answer. The level is heard of a moment later."""
    told = [(each.feature, ErrorCode(each.error_code).name) for each in answer.results]
    peer.note(f"v{version}, {what}", ErrorCode(answer.error_code).name, told)


def until_level(peer: TransactionPeer, level: int) -> None:
    peer.until(lambda: peer.features().get(FEATURE, 0) == level)


def what_is_not_allowed(peer: TransactionPeer) -> None:
    for version in (0, 1, 2):
        for level in (3, 100, -1):
            update(peer, f"level {level}", level, version)
        update(peer, "a feature that nobody knows", 1, version, "nonsense.version")
        update(peer, "a feature without a name", 1, version, "")
        update(peer, "down as an upgrade", 1, version)
        update(peer, "the same level", 2, version)
    update(peer, "down, allowed as of old", 1, 0, allow_downgrade=True)
    for version in (1, 2):
        for kind in (0, 9, -1):
            update(peer, f"a change of kind {kind}", 1, version, upgrade_type=kind)
        for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            update(peer, "the same level as a downgrade", 2, version, upgrade_type=kind)
            update(peer, "down, tried", 1, version, upgrade_type=kind, validate_only=True)
    peer.note("its level", peer.features().get(FEATURE))


def several_at_once(peer: TransactionPeer) -> None:
    down = FeatureUpdate(feature=FEATURE, max_version_level=1, upgrade_type=SAFE_DOWNGRADE)
    unknown = FeatureUpdate(feature="nonsense.version", max_version_level=1)
    same = FeatureUpdate(feature=FEATURE, max_version_level=2)
    for version in (1, 2):
        for what, updates in {
            "none": (),
            "one is unknown": (down, unknown),
            "unknown first": (unknown, down),
            "twice": (same, same),
        }.items():
            answer = peer.ask(UpdateFeaturesRequest(feature_updates=updates), version)
            tell(peer, what, answer, version)
    peer.note("its level", peer.features().get(FEATURE))


def down_and_up(peer: TransactionPeer) -> None:
    for version, kind in ((1, SAFE_DOWNGRADE), (2, UNSAFE_DOWNGRADE)):
        for level in (1, 0):
            update(peer, f"down to {level}", level, version, upgrade_type=kind)
            until_level(peer, level)
            peer.note("its level", peer.features().get(FEATURE))
            update(peer, "up as a downgrade", 2, version, upgrade_type=kind)
            peer.init(f"a producer at level {level}")
        for level in (1, 2):
            update(peer, f"up to {level}", level, version, upgrade_type=UPGRADE)
            until_level(peer, level)
    update(peer, "down to 0", 0, 1, upgrade_type=SAFE_DOWNGRADE)
    until_level(peer, 0)
    update(peer, "up as of old", 2, 0)
    until_level(peer, 2)


def the_level_changes_in_a_transaction(peer: TransactionPeer) -> None:
    """The request's version counts, not the level at which the transaction began."""
    at = peer.start()
    peer.store(at, 0, 12)
    update(peer, "down", 1, 2, upgrade_type=SAFE_DOWNGRADE)
    until_level(peer, 1)
    peer.end("commits", at, 4)
    peer.note_transaction("it stands")
    peer.open(at)
    peer.store(at, 1, 11)
    update(peer, "up", 2, 2)
    until_level(peer, 2)
    at = peer.end("commits", at, 5)
    peer.note_transaction("it stands")
    peer.try_produce("the next", at, 0, 12)
    peer.end("commits", at, 5)
    peer.note_transaction("it stands")
    peer.note_fetched("the log")


SCENES = (what_is_not_allowed, several_at_once, down_and_up, the_level_changes_in_a_transaction)
