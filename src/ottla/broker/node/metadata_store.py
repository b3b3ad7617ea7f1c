"""Opens a node's metadata store: in ZooKeeper for a broker of a cluster, else in its own disk."""

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.event_log import Logger
from ottla.broker.node.context import Seams
from ottla.errors import StoreUnusable
from ottla.metadata import applied_offset
from ottla.metadata.embedded.metadata_directory import find_metadata_directory, metadata_directories
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.store import MetadataStore
from ottla.seams.files import Files
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.zookeeper import ZOOKEEPER_CONNECT


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
        """StorageError or OSError if the store cannot be opened.

        A shared store is opened before anything on disk is changed, and BrokerIdTaken may be
        raised here.
        """
        ...


class EmbeddedStoreFactory:
    """Keeps the metadata in one of the node's log directories, its home."""

    is_shared = False

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        if not metadata_directories(files, log_dirs):
            for path in log_dirs:
                _require_no_cluster(files, path)
        return find_metadata_directory(files, log_dirs)

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        return EmbeddedStore.open(seams.files, home, seams.clock, seams.threads)


EMBEDDED = EmbeddedStoreFactory()


def stores_of(settings: BrokerSettings, logger: Logger) -> StoreFactory:
    """The kind of store that the settings ask for."""
    if settings[ZOOKEEPER_CONNECT] is None:
        return EMBEDDED
    # Imported here: the start of a single broker does not pay for it.
    from ottla.broker.node.zookeeper_store import ZooKeeperStoreFactory

    return ZooKeeperStoreFactory(settings, logger)


def _require_no_cluster(files: Files, path: str) -> None:
    """A broker of a cluster has this file once it has registered.

    The data of any other one is refused, too, since it has no metadata.
    """
    if files.exists(f"{path}/{applied_offset.FILE_NAME}"):
        raise StoreUnusable(
            f"{path} is of a broker in a cluster, whose metadata is in ZooKeeper",
            why="without it the broker does not know the topics of its logs",
            advice="name the ZooKeeper servers of the cluster with --zookeeper"
            " HOST:PORT[,HOST:PORT…][/CHROOT]",
        )
