"""A range of a file that is to be sent, not yet read."""

from dataclasses import dataclass, field

from ottla.seams.files import File

_UNLIMITED = 2**63 - 1


@dataclass(slots=True, eq=False)
class Extent:
    """The part of a file that is still as it was when slices of it were made."""

    end_position: int = _UNLIMITED
    # The extent of slices that were made after the truncation.
    later: "Extent | None" = None

    def end_at(self, position: int) -> "Extent":
        """The file is truncated. Returns the extent of later slices."""
        self.end_position = position
        self.later = Extent()
        return self.later


@dataclass(frozen=True, slots=True)
class FileSlice:
    """`size` bytes from `position`. The slice keeps the file open."""

    file: File
    position: int
    size: int
    extent: Extent = field(default_factory=Extent, compare=False)

    def __len__(self) -> int:
        return self.size

    @property
    def is_cut(self) -> bool:
        """Whether the file was truncated before the end of the slice. Other bytes may follow."""
        end_position = self.position + self.size
        extent: Extent | None = self.extent
        while extent is not None:
            if end_position > extent.end_position:
                return True
            extent = extent.later
        return False

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size)

    def without(self, sent: int) -> "FileSlice":
        """The rest of the slice when its first bytes were sent."""
        return FileSlice(self.file, self.position + sent, self.size - sent, self.extent)
