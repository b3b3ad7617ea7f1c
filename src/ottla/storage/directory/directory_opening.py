"""Opening log directories: creates them, locks them, and checks meta.properties."""

from collections.abc import Sequence
from contextlib import ExitStack

from ottla.errors import CorruptLog, StorageError
from ottla.protocol.primitives import Uuid
from ottla.seams.clock import Clock
from ottla.seams.files import Files, Lock
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.checkpoint_files import MetaProperties
from ottla.storage.directory.directory import ConfigOf, LogDirectory, partition_of
from ottla.storage.directory.placements import Placements
from ottla.storage.log.file_pool import FilePool

LOCK = ".lock"


class DirectoryInUse(StorageError):
    """Another process has locked this directory."""


class WrongCluster(StorageError):
    """This directory belongs to another cluster or node."""


def _lock_and_check(
    files: Files, path: str, *, cluster_id: str | None, node_id: int
) -> tuple[Lock, MetaProperties | None]:
    """Locks a directory before it is opened, and reads its meta.properties; None if it has none.

    DirectoryInUse or WrongCluster if it is not for this node, OSError if it cannot be read.
    """
    lock = _lock(files, path)
    try:
        meta = MetaProperties.read(files, path)
        if meta is not None:
            _require_same(meta, path, cluster_id or meta.cluster_id, node_id)
    except BaseException:
        lock.release()
        raise
    return lock, meta


def open_directory(
    files: Files,
    path: str,
    *,
    cluster_id: str,
    node_id: int,
    directory_id: Uuid,
    config_of: ConfigOf,
    clock: Clock,
    open_files_max: int = 512,
    lock: Lock | None = None,
) -> LogDirectory:
    """Locks, checks and loads a log directory. Writes meta.properties if it is new.

    `lock` is that of a directory which is locked already. It is released if the opening fails.
    DirectoryInUse, WrongCluster, CorruptLog or OSError if the directory cannot be used.
    """
    lock = lock or _lock(files, path)
    try:
        meta = _stamp(files, path, cluster_id, node_id, directory_id)
        is_clean = checkpoint_files.read_clean_shutdown(files, path) is not None
        checkpoint_files.remove_clean_shutdown(files, path)
        directory = LogDirectory(
            files=files,
            path=path,
            meta=meta,
            config_of=config_of,
            clock=clock,
            lock=lock,
            pool=FilePool(files, open_files_max),
        )
        directory.load(is_clean=is_clean)
    except BaseException:
        lock.release()
        raise
    return directory


def _lock(files: Files, path: str) -> Lock:
    try:
        return files.lock(f"{path}/{LOCK}")
    except BlockingIOError:
        raise DirectoryInUse(f"{path} is in use by another process") from None


def _stamp(
    files: Files, path: str, cluster_id: str, node_id: int, directory_id: Uuid
) -> MetaProperties:
    meta = MetaProperties.read(files, path)
    if meta is None:
        if _holds_partitions(files, path):
            raise CorruptLog(
                f"{path}/{checkpoint_files.META_PROPERTIES}",
                0,
                "missing, though partitions are here",
            )
        meta = MetaProperties(cluster_id, node_id, str(directory_id))
        meta.write(files, path)
    _require_same(meta, path, cluster_id, node_id)
    return meta


def _require_same(meta: MetaProperties, path: str, cluster_id: str, node_id: int) -> None:
    if (meta.cluster_id, meta.node_id) != (cluster_id, node_id):
        raise WrongCluster(
            f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
            f"this is node {node_id} of cluster {cluster_id}"
        )


def _holds_partitions(files: Files, path: str) -> bool:
    return any(partition_of(name) and files.is_dir(f"{path}/{name}") for name in files.list(path))


# All log.dirs of a broker


def prepare_directories(
    files: Files, paths: Sequence[str], placements: Placements | None
) -> dict[str, Exception]:
    """Creates missing directories. Returns the errors of those that cannot be used, by path.

    OSError if the first one, which has the metadata, cannot be used.
    """
    failed: dict[str, Exception] = {}
    for path in paths:
        why_vanished = placements.why_vanished(path) if placements is not None else None
        if why_vanished is not None:
            failed[path] = StorageError(f"{path}: {why_vanished}")
            continue
        try:
            make_directory(files, path)
        except OSError as error:
            if path == paths[0]:
                raise
            failed[path] = error
    return failed


def make_directory(files: Files, path: str) -> None:
    """Creates a log directory if there is none. Its name is durable on return."""
    if not files.is_dir(path):
        files.make_dir(path)
    files.sync_dir(path.rpartition("/")[0] or "/")


def find_placements(files: Files, paths: Sequence[str]) -> Placements | None:
    """The placements file; None for a broker that never had more than one log directory."""
    placements = Placements(files, paths[0])
    return placements if len(paths) > 1 or placements.is_there else None


def lock_directories(files: Files, paths: Sequence[str], node_id: int) -> dict[str, Lock]:
    """Locks the directories, before any is written to. They belong to this node, or are new.

    DirectoryInUse, WrongCluster; OSError if the first one, which has the metadata, is unusable.
    None is locked then.
    """
    cluster_id = None
    with ExitStack() as undone:
        locks: dict[str, Lock] = {}
        for path in paths:
            try:
                lock, meta = _lock_and_check(files, path, cluster_id=cluster_id, node_id=node_id)
            except OSError:
                # The broker runs without other directories. Opening reports their errors.
                if path == paths[0]:
                    raise
                continue
            undone.callback(lock.release)
            locks[path] = lock
            cluster_id = cluster_id or (meta.cluster_id if meta else None)
        undone.pop_all()
    return locks
