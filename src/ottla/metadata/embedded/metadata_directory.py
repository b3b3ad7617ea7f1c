"""Which of a broker's `log.dirs` has its metadata, whatever their order.

The others know the id of the cluster and no more. To begin a new cluster beside them would set
every partition aside as one that nobody knows.
"""

from collections.abc import Sequence

from ottla.errors import StorageError
from ottla.metadata.embedded.entry_log import PARTITION
from ottla.seams.files import Files
from ottla.storage.directory.checkpoint_files import MetaProperties


class NoHome(StorageError):
    """The metadata is in none of the directories, or in more than one."""


def find_home(files: Files, paths: Sequence[str]) -> str:
    """The directory that has the metadata; the first one for a new broker.

    NoHome; OSError or CorruptLog if nobody can say what is in a directory.
    """
    homes = [path for path in paths if files.is_dir(f"{path}/{PARTITION}")]
    if len(homes) > 1:
        raise NoHome(
            f"{' and '.join(homes)} both have metadata ({PARTITION}), and one of log.dirs may have"
            " it: take the directory out of log.dirs whose metadata is not this broker's"
        )
    if homes:
        return homes[0]
    clusters = {path: cluster_id for path in paths if (cluster_id := _cluster_of(files, path))}
    if clusters:
        named = ", ".join(f"{path} is of cluster {each}" for path, each in clusters.items())
        raise NoHome(
            f"{named}, and none of log.dirs has the metadata ({PARTITION}). Is a directory missing"
            " from log.dirs, or is its disk not mounted? What Kafka wrote is taken over by"
            " `ottla log adopt`"
        )
    return paths[0]


def _cluster_of(files: Files, path: str) -> str | None:
    try:
        # Also where there is no name tag: a disk that cannot be read may have everything.
        files.list(path)
    except FileNotFoundError:
        return None
    meta = MetaProperties.read(files, path)
    return meta.cluster_id if meta is not None else None
