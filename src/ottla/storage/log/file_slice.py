"""A range of a file that is to be sent, not yet read."""

from dataclasses import dataclass

from ottla.seams.files import File


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes from `position`. The slice keeps the file open."""

    file: File
    position: int
    size: int

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size)
