"""The features of the cluster (KIP-584): which levels the broker supports, which are finalized."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ottla.metadata.image import Image

GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"


class FeatureLevels(NamedTuple):
    """The levels that this broker supports, and the finalized level unless a client sets one."""

    min_level: int
    max_level: int
    default_level: int
    # A feature that cannot be changed is always finalized at its default level.
    may_change: bool = True


SUPPORTED: Mapping[str, FeatureLevels] = MappingProxyType(
    {
        GROUP_VERSION: FeatureLevels(0, 1, 1, may_change=False),
        TRANSACTION_VERSION: FeatureLevels(0, 2, 2),
    }
)


def finalized_level(image: Image, name: str) -> int:
    """The finalized level of a supported feature; 0 if it is disabled."""
    levels = SUPPORTED[name]
    if not levels.may_change:
        return levels.default_level
    return image.features.get(name, levels.default_level)


def transaction_version(image: Image) -> int:
    """The finalized level of `transaction.version`: 2 and above is KIP-890's second part."""
    return finalized_level(image, TRANSACTION_VERSION)


def finalized_features(image: Image) -> Iterator[tuple[str, int]]:
    """The features that are not disabled, with their levels."""
    for name in SUPPORTED:
        level = finalized_level(image, name)
        if level > 0:
            yield name, level
