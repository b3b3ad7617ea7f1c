"""A piece of a file that is on its way to somebody, not yet read."""

from dataclasses import dataclass

from ottla.seams.files import File


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes from `position`. Holding the slice holds the file open."""

    file: File
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size)
