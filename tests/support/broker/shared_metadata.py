"""Nodes with their metadata in a simulated ensemble, which they may share."""

from collections.abc import Sequence

from ottla.broker.node.context import Seams
from ottla.metadata.store import MetadataStore
from ottla.seams.files import Files
from tests.sim.metadata_store import SimEnsemble, SimMetadataStore


class SimStoreFactory:
    """`store` is the last opened store."""

    def __init__(self, ensemble: SimEnsemble) -> None:
        self._ensemble = ensemble
        self.store: SimMetadataStore | None = None

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        return log_dirs[0]

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        self.store = self._ensemble.connect()
        return self.store
