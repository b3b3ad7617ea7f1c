"""Remembers on disk how much of a shared metadata log this broker has applied.

A store that was restored from a backup has a shorter log. Topics created since would be missing in
it, and the broker would take their logs for strays.
"""

from ottla.errors import StorageError
from ottla.seams.files import Files, read_file, replace_file

FILE_NAME = "metadata-applied-offset"

_FILE_BYTES_MAX = 64


class MetadataWentBack(StorageError):
    """The metadata store has fewer entries than this broker has applied."""


class AppliedOffset:
    """The offset of the last applied entry, saved now and then: an older one protects as well."""

    def __init__(self, files: Files, home: str) -> None:
        self._files = files
        self._path = f"{home}/{FILE_NAME}"
        self._saved = self._read()

    def check(self, offset: int) -> None:
        """MetadataWentBack if a store whose last entry has this offset is not the one of before."""
        if offset < self._saved:
            raise MetadataWentBack(
                f"the metadata store ends at entry {offset}, and this broker has applied entry"
                f" {self._saved}: it was restored from a backup, or belongs to another cluster."
                f" To accept it, and set aside the logs of topics that it does not know,"
                f" remove {self._path}."
            )

    def save(self, offset: int) -> None:
        """Durable on return. Does nothing if the offset is not newer."""
        if offset > self._saved:
            replace_file(self._files, self._path, b"%d\n" % offset)
            self._saved = offset

    def _read(self) -> int:
        if not self._files.exists(self._path):
            return -1
        content = read_file(self._files, self._path, _FILE_BYTES_MAX)
        try:
            return int(content)
        except ValueError:
            # The file is replaced atomically, so this is damage; there is nothing to compare with.
            return -1
