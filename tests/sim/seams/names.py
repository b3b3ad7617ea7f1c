"""Directories of a simulated disk: the names in force, and which of them have reached the medium.

Every change of a name goes into one journal, in order, and stays there until `sync_dir` on a
directory that it touches. A rename is one change, so it is durable in both its places or neither.
"""

from typing import Union

from tests.sim.seams.contents import FileNode
from tests.sim.seams.entropy import SimEntropy

Node = Union["DirectoryNode", FileNode]


class DirectoryNode:
    __slots__ = ("durable", "entries", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


class NameChange:
    """Some names that changed as one: each (directory, name) gets a node, or loses its own."""

    __slots__ = ("emptied", "entries", "moves_directory")

    def __init__(
        self,
        *entries: tuple[DirectoryNode, str, Node | None],
        emptied: DirectoryNode | None = None,
        moves_directory: bool = False,
    ) -> None:
        self.entries = entries
        self.emptied = emptied
        self.moves_directory = moves_directory

    def touches(self, directory: DirectoryNode) -> bool:
        return any(place is directory for place, _, _ in self.entries)

    def apply(self) -> None:
        """Makes it so in the names in force."""
        for directory, name, node in self.entries:
            _put(directory.entries, name, node)

    def make_durable(self) -> None:
        for directory, name, node in self.entries:
            _put(directory.durable, name, node)

    def needs(self, earlier: "NameChange") -> bool:
        """Whether this cannot be on the medium without `earlier`.

        A name's changes follow one another; a directory is removed only after what emptied it; and
        directories move one after another, or two of them could end up inside each other.
        """
        if self.moves_directory and earlier.moves_directory:
            return True
        if self.emptied is not None and earlier.touches(self.emptied):
            return True
        return any(
            mine is theirs and name == other
            for mine, name, _ in self.entries
            for theirs, other, _ in earlier.entries
        )


def _put(entries: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


class NameJournal:
    """The changes of names that are not durable yet, oldest first."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: list[NameChange] = []

    def record(self, change: NameChange) -> None:
        change.apply()
        self._changes.append(change)

    def sync(self, directory: DirectoryNode) -> None:
        """Every change in this directory is durable, and what those changes need elsewhere."""
        kept: list[NameChange] = []
        needed: list[NameChange] = []
        for change in reversed(self._changes):
            wanted = change.touches(directory) or any(later.needs(change) for later in needed)
            (needed if wanted else kept).append(change)
        for change in reversed(needed):
            change.make_durable()
        kept.reverse()
        self._changes = kept

    def lose_power(self, entropy: SimEntropy, *, reordering: bool) -> None:
        """Some changes were on the medium already, the others never will be."""
        keep = _any_consistent_subset if reordering else _prefix_per_directory
        for change in keep(self._changes, entropy):
            change.make_durable()
        self._changes.clear()


def _prefix_per_directory(changes: list[NameChange], entropy: SimEntropy) -> list[NameChange]:
    """Each directory keeps its oldest changes, up to a point of its own."""
    rate = entropy.pick((0.0, 0.1, 0.3, 1.0))
    kept: list[NameChange] = []
    lost: list[NameChange] = []
    cut: dict[int, bool] = {}
    for change in changes:
        places = [directory.number for directory, _, _ in change.entries]
        doomed = any(place in cut for place in places) or any(map(change.needs, lost))
        if doomed or entropy.chance(rate):
            lost.append(change)
            cut.update(dict.fromkeys(places, True))
        else:
            kept.append(change)
    return kept


def _any_consistent_subset(changes: list[NameChange], entropy: SimEntropy) -> list[NameChange]:
    """Each change by its own luck, unless one it needs was lost."""
    kept: list[NameChange] = []
    lost: list[NameChange] = []
    for change in changes:
        doomed = any(map(change.needs, lost))
        (lost if doomed or entropy.chance(0.5) else kept).append(change)
    return kept


def adopt_durable(directory: DirectoryNode) -> list[FileNode]:
    """After a power loss: the durable names are the names. The files that have one, in order."""
    directory.entries = dict(directory.durable)
    files: list[FileNode] = []
    for node in directory.entries.values():
        if isinstance(node, DirectoryNode):
            files.extend(adopt_durable(node))
        else:
            files.append(node)
    return files
