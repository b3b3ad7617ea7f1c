"""How a node opens its metadata store. Today every node has one of its own, embedded."""

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.node.context import Seams
from ottla.metadata.embedded.metadata_directory import find_metadata_directory
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.store import MetadataStore
from ottla.seams.files import Files


class StoreFactory(Protocol):
    """Opens the store of one kind. A node knows its store by this and by `MetadataStore` alone."""

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        """The log directory that remembers this broker's incarnation and the id of its cluster.

        StorageError or OSError if that cannot be told.
        """
        ...

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        """StorageError or OSError if the store cannot be opened."""
        ...


class EmbeddedStoreFactory:
    """The metadata is in one of the node's own log directories, which is its home."""

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        return find_metadata_directory(files, log_dirs)

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        return EmbeddedStore.open(seams.files, home, seams.clock, seams.threads)


EMBEDDED = EmbeddedStoreFactory()
