"""Opens the metadata store of a broker in a cluster: connects to ZooKeeper, and checks that its
metadata and this broker's data belong together."""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.broker.event_log import Logger
from ottla.broker.node.context import Seams
from ottla.errors import StoreUnusable
from ottla.metadata import applied_offset, incarnation
from ottla.metadata.embedded.metadata_directory import metadata_directories
from ottla.metadata.incarnation import read_incarnation
from ottla.metadata.store import MetadataStore
from ottla.metadata.zookeeper.access import Tls, ZooKeeperAccess
from ottla.metadata.zookeeper.promotion import require_no_promotion
from ottla.metadata.zookeeper.registrations import require_free
from ottla.metadata.zookeeper.store import ZooKeeperStore, find_cluster_id
from ottla.metadata.zookeeper.znodes import Znodes
from ottla.seams.files import Files, read_file
from ottla.seams.threads import Threads
from ottla.settings.broker import BrokerSettings
from ottla.settings.kinds import Secret
from ottla.settings.table import node, zookeeper
from ottla.settings.zookeeper_connect import ConnectString
from ottla.storage.directory.checkpoint_files import MetaProperties

DIGEST_FILE_BYTES_MAX = 4096


class ZooKeeperStoreFactory:
    """The store of the cluster that `zookeeper.connect` names."""

    is_shared = True

    def __init__(self, settings: BrokerSettings, logger: Logger) -> None:
        self._settings = settings
        self._logger = logger

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        """The directory of the last start, in any order of `log.dirs`; the first one if new."""
        single = metadata_directories(files, log_dirs)
        if single:
            raise StoreUnusable(
                f"{single[0]} has the metadata of a broker that was alone",
                why="in ZooKeeper its topics would be missing",
                advice="`ottla cluster promote` moves its metadata to ZooKeeper; or choose another"
                " directory with --data",
            )
        for name in (applied_offset.FILE_NAME, incarnation.FILE_NAME):
            for path in log_dirs:
                if files.exists(f"{path}/{name}"):
                    return path
        return log_dirs[0]

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        access = zookeeper_access(self._settings, seams.files)
        znodes = await connect_zookeeper(access, seams.threads, self._logger)
        store = ZooKeeperStore(znodes)
        try:
            await self._check(znodes, access.connect, seams.files, home)
        except BaseException:
            await store.close()
            raise
        return store

    async def _check(self, znodes: Znodes, connect: ConnectString, files: Files, home: str) -> None:
        """StoreUnusable if the data is of another cluster; BrokerIdTaken."""
        meta = MetaProperties.read(files, home)
        if meta is not None:
            await require_no_promotion(znodes)
            cluster_id = await find_cluster_id(znodes)
            if cluster_id != meta.cluster_id:
                found = "no cluster" if cluster_id is None else f"cluster {cluster_id}"
                raise StoreUnusable(
                    f"{home} is of cluster {meta.cluster_id}, and ZooKeeper at {connect} has"
                    f" {found}",
                    advice="check the servers and the chroot of --zookeeper, or choose another"
                    " directory with --data",
                )
        saved = read_incarnation(files, home)
        await require_free(
            znodes, self._settings[node.NODE_ID], () if saved is None else saved.replaced_ids
        )


def zookeeper_access(settings: BrokerSettings, files: Files) -> ZooKeeperAccess:
    """How to reach the ZooKeeper in the settings. StoreUnusable if a file cannot be read."""
    connect = settings[zookeeper.ZOOKEEPER_CONNECT]
    if connect is None:
        raise RuntimeError("the settings have no zookeeper.connect")
    session_timeout_ms = settings[zookeeper.ZOOKEEPER_SESSION_TIMEOUT_MS]
    digest_file = settings[zookeeper.ZOOKEEPER_AUTH_DIGEST_FILE]
    tls = None
    if settings[zookeeper.ZOOKEEPER_SSL_CLIENT_ENABLE]:
        tls = Tls(
            trusted=settings[zookeeper.ZOOKEEPER_SSL_TRUSTSTORE_LOCATION],
            keystore=settings[zookeeper.ZOOKEEPER_SSL_KEYSTORE_LOCATION],
            keystore_password=settings[zookeeper.ZOOKEEPER_SSL_KEYSTORE_PASSWORD],
        )
    return ZooKeeperAccess(
        connect=connect,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=settings[zookeeper.ZOOKEEPER_CONNECTION_TIMEOUT_MS]
        or session_timeout_ms,
        digest=None if digest_file is None else _read_digest(files, digest_file),
        sets_acl=digest_file is not None or settings[zookeeper.ZOOKEEPER_SET_ACL],
        tls=tls,
    )


async def connect_zookeeper(access: ZooKeeperAccess, threads: Threads, logger: Logger) -> Znodes:
    """A client with a session, whose chroot exists. StoreUnusable if there is none in time."""
    try:
        # Imported here: without it the broker can say what is missing.
        from ottla.metadata.zookeeper.kazoo_client import KazooZnodes
    except ModuleNotFoundError as error:
        raise StoreUnusable(
            "the client for ZooKeeper is not installed",
            why=str(error),
            advice="pip install 'ottla[cluster]'",
        ) from error

    def report(event: str, fields: Mapping[str, Any]) -> None:
        log = logger.warning if "lost" in event or "expired" in event else logger.info
        log(event, **fields)

    return await KazooZnodes.connect(access, threads, report)


def _read_digest(files: Files, path: str) -> Secret:
    """The first line, `user:password`. The error does not show it."""
    advice = f"write user:password into it, or unset {zookeeper.ZOOKEEPER_AUTH_DIGEST_FILE.name}"
    try:
        content = read_file(files, path, DIGEST_FILE_BYTES_MAX)
        line = content.decode().partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise StoreUnusable(f"{path} cannot be read", why=why, advice=advice) from None
    user, colon, password = line.partition(":")
    if not (user and colon and password):
        raise StoreUnusable(f"{path} has no user:password", advice=advice)
    return Secret(line)
