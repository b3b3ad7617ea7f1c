"""The controller's decision on UpdateFeatures: an image and updates give records."""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.features import SUPPORTED, finalized_level
from ottla.metadata.image import Image
from ottla.metadata.records import Feature


class UpgradeType(IntEnum):
    """Which changes of a level a client allows; the numbers are those of the wire."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The level that a client wants, and the kind of change that it allows."""

    name: str
    level: int
    upgrade_type: int


def update_features(image: Image, updates: Iterable[FeatureUpdate]) -> list[Feature]:
    """The records of all updates. PeerError if one of them is refused."""
    return [record for update in updates if (record := _update(image, update)) is not None]


def _update(image: Image, update: FeatureUpdate) -> Feature | None:
    name, level, upgrade_type = update
    levels = SUPPORTED.get(name)
    if levels is None or not levels.min_level <= level <= levels.max_level:
        raise _invalid(update, _supported(name))
    current = finalized_level(image, name)
    if upgrade_type not in (1, 2, 3):
        raise _invalid(update, "The upgrade type is unknown.")
    if level == current:
        return None
    if not levels.may_change:
        raise _invalid(update, f"This broker always uses level {current}.")
    if level < current and upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(update, "Only a downgrade, safe or unsafe, may lower the level.")
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, "A downgrade cannot raise the level.")
    return Feature(name, level)


def _supported(name: str) -> str:
    levels = SUPPORTED.get(name)
    if levels is None:
        return "This broker does not support the feature."
    return f"This broker supports levels {levels.min_level} to {levels.max_level}."


def _invalid(update: FeatureUpdate, reason: str) -> PeerError:
    return PeerError(
        ErrorCode.INVALID_UPDATE_VERSION,
        "The update failed for all features since the following feature had an error:"
        f" Invalid update version {update.level} for feature {update.name[:100]}. {reason}",
    )
