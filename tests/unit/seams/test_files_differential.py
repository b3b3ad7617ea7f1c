"""The simulated files against the kernel's: the same operations, the same observations."""

import random
from pathlib import Path
from typing import Any

import pytest

from ottla.seams.files import File, Files, Lock, RealFiles
from tests.sim.seams.disk import SimDisk

SEEDS = 60
STEPS = 150
ROOT = "/simulated"
NAMES = ("a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "f", "f/a")


class Actor:
    """Runs the random operation of a number, and returns its observation."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self._open: list[File] = []
        self._locks: list[Lock] = []

    def act(self, step: random.Random) -> Any:
        try:
            return self._act(step)
        except OSError as error:
            names = [
                name.removeprefix(self._root)
                for name in (error.filename, error.filename2)
                if name is not None
            ]
            return type(error).__name__, error.errno, names

    def finish(self) -> list[Any]:
        """The whole tree and every open file, then everything closed."""
        seen: list[Any] = [self._tree(self._root)]
        for file in self._open:
            seen.append(file.read_at(0, 1 << 20))
            file.close()
        for lock in self._locks:
            lock.release()
        return seen

    def _act(self, step: random.Random) -> Any:
        path = f"{self._root}/{step.choice(NAMES)}"
        target = f"{self._root}/{step.choice(NAMES)}"
        kind = step.randrange(16)
        if kind < 6 and self._open:
            return self._act_on_file(step, step.randrange(len(self._open)))
        if kind < 8:
            self._open.append(self._files.create(path))
            return "created"
        if kind == 8 and not self._files.is_dir(path):
            self._open.append(self._files.open(path, writable=step.random() < 0.8))
            return "opened"
        if kind == 9:
            self._files.make_dir(path)
            return "made"
        if kind in (10, 11):
            self._files.rename(path, target)
            return "renamed"
        if kind == 12:
            self._files.remove(path)
            return "removed"
        if kind == 13:
            self._files.remove_dir(path)
            return "removed directory"
        if kind == 14:
            return self._act_on_lock(step, path)
        size = -1 if self._files.is_dir(path) else self._files.size(path)
        return self._files.exists(path), size, self._files.list(path)

    def _act_on_file(self, step: random.Random, index: int) -> Any:
        file = self._open[index]
        position, size = step.randrange(2_000), step.randrange(1_500)
        kind = step.randrange(6)
        if kind < 3:
            return file.write_at(position, [step.randbytes(size), step.randbytes(size // 3)])
        if kind == 3:
            file.truncate(position)
            return file.size()
        if kind == 4:
            file.sync()
            if step.random() < 0.3:
                self._open.pop(index).close()
                return "closed"
        return file.read_at(position, size)

    def _act_on_lock(self, step: random.Random, path: str) -> str:
        if self._locks and step.random() < 0.5:
            self._locks.pop().release()
            return "released"
        self._locks.append(self._files.lock(path))
        return "locked"

    def _tree(self, path: str) -> Any:
        if self._files.is_dir(path):
            return {name: self._tree(f"{path}/{name}") for name in self._files.list(path)}
        file = self._files.open(path, writable=False)
        try:
            return file.read_at(0, 1 << 20)
        finally:
            file.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_operations_look_the_same_on_both(seed: int, tmp_path: Path) -> None:
    simulated_files = SimDisk(seed).process()
    simulated_files.make_dir(ROOT)
    real = Actor(RealFiles(), str(tmp_path))
    simulated = Actor(simulated_files, ROOT)
    steps = random.Random(seed)
    seen: list[Any] = []
    for number in range(STEPS):
        token = steps.random()
        expected = real.act(random.Random(token))
        assert simulated.act(random.Random(token)) == expected, f"seed {seed}, step {number}"
        seen.append(expected)
    tree = real.finish()
    assert simulated.finish() == tree, f"seed {seed}"
    assert simulated_files.open_paths() == []
