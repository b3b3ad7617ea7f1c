"""Opens a node's metadata store. Today every node has its own, embedded one."""

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.node.context import Seams
from ottla.metadata.embedded.metadata_directory import find_metadata_directory
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.store import MetadataStore
from ottla.seams.files import Files


class StoreFactory(Protocol):
    """Opens one kind of store. A node uses its store only through this and `MetadataStore`."""

    @property
    def is_shared(self) -> bool:
        """Whether other brokers use the same metadata."""
        ...

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        """The log directory that stores this broker's incarnation and its cluster id.

        StorageError or OSError if it cannot be determined.
        """
        ...

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        """StorageError or OSError if the store cannot be opened."""
        ...


class EmbeddedStoreFactory:
    """Keeps the metadata in one of the node's log directories, its home."""

    is_shared = False

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        return find_metadata_directory(files, log_dirs)

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        return EmbeddedStore.open(seams.files, home, seams.clock, seams.threads)


EMBEDDED = EmbeddedStoreFactory()
