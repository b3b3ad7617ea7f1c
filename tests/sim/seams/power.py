"""What a power loss leaves of a file's unsynced changes."""

from enum import Enum, auto

from tests.sim.seams.contents import Change, Content, FileNode, Write
from tests.sim.seams.entropy import SimEntropy

SECTOR_BYTES = 512


class Fate(Enum):
    """What became of one unsynced change."""

    KEPT = auto()
    LOST = auto()
    TORN = auto()
    """A prefix reached the medium; the size may have been extended over the rest."""
    ZEROED = auto()
    """The size reached the medium, the bytes did not."""


class Weather(Enum):
    """How the changes of one file fared together: luck that is only ever independent would
    almost never keep, or lose, a whole file's worth of them."""

    ALL_KEPT = auto()
    ALL_LOST = auto()
    IN_ORDER = auto()
    ANY_ORDER = auto()


_WEATHERS = (
    Weather.ALL_KEPT,
    Weather.ALL_LOST,
    Weather.IN_ORDER,
    Weather.IN_ORDER,
    Weather.ANY_ORDER,
    Weather.ANY_ORDER,
    Weather.ANY_ORDER,
)
_BROKEN_FATES = (Fate.LOST, Fate.TORN, Fate.ZEROED)
_ANY_FATES = (Fate.KEPT, Fate.KEPT, *_BROKEN_FATES)


def lose_power(node: FileNode, entropy: SimEntropy) -> None:
    """The file holds what was durable, and whatever of its unsynced changes luck has kept."""
    content = node.durable()
    for change, fate in zip(node.unsynced, _fates(len(node.unsynced), entropy), strict=True):
        _suffer(change, fate, content, entropy)
    node.settle(content)


def _fates(count: int, entropy: SimEntropy) -> list[Fate]:
    if not count:
        return []
    weather = entropy.pick(_WEATHERS)
    if weather is Weather.ALL_KEPT:
        return [Fate.KEPT] * count
    if weather is Weather.ALL_LOST:
        return [Fate.LOST] * count
    if weather is Weather.IN_ORDER:
        kept = entropy.below(count)
        broken = entropy.pick(_BROKEN_FATES)
        return [Fate.KEPT] * kept + [broken] + [Fate.LOST] * (count - kept - 1)
    return [entropy.pick(_ANY_FATES) for _ in range(count)]


def _suffer(change: Change, fate: Fate, content: Content, entropy: SimEntropy) -> None:
    if fate is Fate.KEPT:
        change.apply(content)
    elif isinstance(change, Write):
        if fate is Fate.TORN:
            content.write(change.position, change.written[: _torn_size(change, entropy)])
            if entropy.chance(0.3):
                content.extend(change.end)
        elif fate is Fate.ZEROED:
            content.extend(change.end)


def _torn_size(write: Write, entropy: SimEntropy) -> int:
    """How much of a torn write is there: up to a sector's end on the medium, or now and then up
    to any byte."""
    if entropy.chance(0.2):
        return entropy.below(len(write.written) + 1)
    sector = entropy.between(write.position // SECTOR_BYTES, write.end // SECTOR_BYTES)
    return max(0, sector * SECTOR_BYTES - write.position)
