"""A simulated disk that keeps what reads see apart from what a power loss leaves.

A process crash keeps everything: the page cache survives. A power loss keeps what was synced, and
of the rest what luck decides: writes whole, torn, zeroed or gone, names in force or never made.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase

from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.faults import Faults
from tests.sim.seams.files import SimFiles
from tests.sim.seams.medium import Medium
from tests.sim.seams.names import DirectoryNode
from tests.sim.seams.power import lose_power
from tests.sim.seams.trace import Trace


class SimDisk:
    """One machine's disk. With a clock it reboots the machine on power loss, and can stall it.

    `on_stall` gets the milliseconds of each stall. Without it all machines of the clock's timeline
    stand still for that time.
    """

    def __init__(
        self,
        entropy: SimEntropy | int = 0,
        capacity_bytes: int = 1 << 30,
        *,
        clock: SimClock | None = None,
        trace: Trace | None = None,
        on_stall: Callable[[int], None] | None = None,
    ) -> None:
        self._entropy = SimEntropy(entropy) if isinstance(entropy, int) else entropy
        self._clock = clock
        self._on_stall = on_stall
        self._trace = trace if trace is not None else Trace()
        self._processes: list[SimFiles] = []
        self._power_losses = 0
        self._rot = self._entropy.fork("rot")
        self.faults = Faults(self._entropy.fork("faults"), self._stall)
        self._medium = Medium(self.faults, self._trace, capacity_bytes)

    def process(self, *, descriptors_max: int = 65_536) -> SimFiles:
        """The `Files` of a new process."""
        files = SimFiles(self._medium, descriptors_max)
        self._processes = [process for process in self._processes if process.alive]
        self._processes.append(files)
        return files

    def power_loss(self, *, reordering: bool | None = None) -> None:
        """Every process dies, and the disk forgets what it was not told to keep.

        The names in each directory survive as a prefix of their changes, or with `reordering` as
        any subset that a file system could have written. Left out, luck decides which of the two.
        """
        for process in self._processes:
            process.crash()
        self._processes.clear()
        self._power_losses += 1
        entropy = self._entropy.fork(f"power-loss-{self._power_losses}")
        if reordering is None:
            reordering = entropy.chance(0.25)
        self._medium.journal.lose_power(entropy.fork("names"), reordering=reordering)
        survivors = self._medium.restart()
        for node in survivors:
            # By its number, so that one file's luck does not hang on another's survival.
            lose_power(node, entropy.fork(f"file-{node.number}"))
        self._medium.used_bytes = sum(len(node.content.stored) for node in survivors)
        for path, node in self._medium.files():
            self._trace.fold(f"survived {path} {node.content.size}", node.content.stored)
        if self._clock is not None:
            self._clock.reboot()

    def flip_bit(self, pattern: str = "*", position: int | None = None) -> tuple[str, int]:
        """Damages one bit of a file that matches `pattern`: at `position`, or anywhere.

        Returns the path and the position. FileNotFoundError if no file that matches has a byte.
        """
        return self._medium.flip_bit(self._rot, pattern, position)

    def back_up(self) -> DirectoryNode:
        """A copy of all files, for `restore`."""
        return self._medium.copied(self._medium.root)

    def restore(self, backup: DirectoryNode) -> None:
        """The disk is as it was. No process may use it."""
        self._trace.fold("restore")
        self._medium.replace(backup)

    def chill(self, pattern: str = "*") -> None:
        """The page cache forgets the files that match."""
        for path, node in self._medium.files():
            if fnmatchcase(path, pattern):
                self._trace.fold(f"chill {path}")
                node.chill()

    @property
    def pages_waited_for(self) -> int:
        """How many cold pages were read by somebody who had to wait for them."""
        return self._medium.pages_waited_for

    def resize(self, capacity_bytes: int) -> None:
        """A smaller disk is a fuller one; a larger one has space again."""
        self._medium.capacity_bytes = capacity_bytes

    def files(self) -> dict[str, bytes]:
        """Every file's content as reads see it now, by path: for a test to look at."""
        return {
            path: node.content.read(0, node.content.size) for path, node in self._medium.files()
        }

    def trace_hash(self) -> str:
        """One hash of every operation so far, and of what each power loss left."""
        return self._trace.hash()

    def _stall(self, elapsed_ms: int) -> None:
        if self._on_stall is not None:
            self._on_stall(elapsed_ms)
        elif self._clock is not None:
            self._clock.advance(ms=elapsed_ms)
