"""Finds the directory with the metadata among the broker's `log.dirs`, in any order.

The other directories only have the cluster id. If a new cluster was created beside them, all of
their partitions would be set aside as unknown.
"""

from collections.abc import Sequence

from ottla.errors import StorageError
from ottla.metadata.embedded.entry_log import PARTITION
from ottla.seams.files import Files
from ottla.storage.directory.checkpoint_files import MetaProperties


class MetadataDirectoryError(StorageError):
    """The metadata is in none of the directories, or in more than one."""


def find_metadata_directory(files: Files, paths: Sequence[str]) -> str:
    """The directory with the metadata; the first one for a new broker.

    MetadataDirectoryError; OSError or CorruptLog if a directory cannot be read.
    """
    found = metadata_directories(files, paths)
    if len(found) > 1:
        raise MetadataDirectoryError(
            f"{' and '.join(found)} both have metadata ({PARTITION}), and one of log.dirs may have"
            " it: take the directory out of log.dirs whose metadata is not this broker's"
        )
    if found:
        return found[0]
    clusters = {path: cluster_id for path in paths if (cluster_id := _cluster_of(files, path))}
    if clusters:
        named = ", ".join(f"{path} is of cluster {each}" for path, each in clusters.items())
        raise MetadataDirectoryError(
            f"{named}, and none of log.dirs has the metadata ({PARTITION}). Is a directory missing"
            " from log.dirs, or is its disk not mounted? What Kafka wrote is taken over by"
            " `ottla log adopt`"
        )
    return paths[0]


def metadata_directories(files: Files, paths: Sequence[str]) -> list[str]:
    """The directories with metadata of a broker that is alone."""
    return [path for path in paths if files.is_dir(f"{path}/{PARTITION}")]


def _cluster_of(files: Files, path: str) -> str | None:
    try:
        # Also without meta.properties: a disk that cannot be read may have the metadata.
        files.list(path)
    except FileNotFoundError:
        return None
    meta = MetaProperties.read(files, path)
    return meta.cluster_id if meta is not None else None
