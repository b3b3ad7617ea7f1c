"""Nodes with their metadata in memory, which they may share."""

from collections.abc import Sequence

from ottla.broker.node.context import Seams
from ottla.metadata.memory import MemoryEnsemble, MemoryStore
from ottla.metadata.store import MetadataStore
from ottla.seams.files import Files


class SimStoreFactory:
    """`store` is the last opened store."""

    is_shared = True

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self._ensemble = ensemble
        self.store: MemoryStore | None = None

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        return log_dirs[0]

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        self.store = self._ensemble.connect()
        return self.store
