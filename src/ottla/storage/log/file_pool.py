"""A cache of open files: logs have more segments than a process may have descriptors."""

from collections import OrderedDict

from ottla.seams.files import File, Files


class FilePool:
    """Keeps one open file per path, and forgets the least recently used.

    A forgotten file closes when its last reader drops it, so a slice that is being sent to a socket
    stays valid.
    """

    __slots__ = ("_open", "_open_max", "_writable", "files")

    def __init__(self, files: Files, open_max: int = 512, *, writable: bool = True) -> None:
        self.files = files
        self._writable = writable
        self._open_max = open_max
        self._open: OrderedDict[str, File] = OrderedDict()

    def get(self, path: str) -> File:
        """The existing file at `path`. FileNotFoundError if there is none."""
        file = self._open.get(path)
        if file is None:
            return self._keep(self.files.open(path, writable=self._writable))
        self._open.move_to_end(path)
        return file

    def create(self, path: str) -> File:
        return self._keep(self.files.create(path))

    def forget(self, path: str) -> None:
        """Call before `path` is renamed or removed: the next `get` must not find the old file."""
        self._open.pop(path, None)

    def forget_below(self, directory: str) -> None:
        """Forgets every file of a directory."""
        prefix = f"{directory}/"
        for path in [path for path in self._open if path.startswith(prefix)]:
            del self._open[path]

    def _keep(self, file: File) -> File:
        self._open[file.path] = file
        if len(self._open) > self._open_max:
            self._open.popitem(last=False)
        return file
