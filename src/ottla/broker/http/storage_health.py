"""The health of a node's log directories and logs.

A node without any log directory, or without the one with the metadata, is not ready. If only some
directories or logs are offline, the node serves the others, and each offline one is a warning.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.broker.http.health import Health
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.replica import Replica
from ottla.storage.directory.directories import LogDirectories

# Limits the length of the page.
NAMED_LOGS_MAX = 20


class StorageFaults(NamedTuple):
    """Reasons by part."""

    not_ready: dict[str, str]
    warnings: dict[str, str]


def why_offline(replica: Replica, directories: LogDirectories) -> str | None:
    """The reason why a log is offline though its directory is online; None otherwise."""
    log = replica.log
    if log is not None:
        is_offline_alone = log.offline is not None and directories.directory_of(log).offline is None
        return str(log.offline) if is_offline_alone else None
    if not replica.is_unusable:
        return None
    for directory in directories.directories:
        if replica.name in directory.unusable:
            return str(directory.unusable[replica.name]) if directory.offline is None else None
    return "its log directory is missing"


def storage_faults(
    offline_directories: Mapping[str, Exception],
    offline_logs: Mapping[TopicPartition, str],
    *,
    metadata_path: str,
    has_usable: bool,
) -> StorageFaults:
    """The reasons and warnings to report. Pure."""
    not_ready: dict[str, str] = {}
    if not has_usable:
        not_ready["log directories"] = f"all are offline: {', '.join(offline_directories)}"
    if metadata_path in offline_directories:
        reason = offline_directories[metadata_path]
        not_ready["metadata"] = f"its log directory {metadata_path} is offline: {reason}"
    warnings = {
        f"log directory {path}": f"offline: {error}" for path, error in offline_directories.items()
    }
    named = sorted(offline_logs)[:NAMED_LOGS_MAX]
    warnings |= {f"partition {name}": f"offline: {offline_logs[name]}" for name in named}
    if len(offline_logs) > len(named):
        warnings["more partitions"] = f"{len(offline_logs) - len(named)} are offline"
    return StorageFaults(not_ready, warnings)


class StorageHealth:
    """Updates a node's health."""

    def __init__(self, health: Health, directories: LogDirectories, metadata_path: str) -> None:
        self._health = health
        self._directories = directories
        self._metadata_path = metadata_path
        self._shown = StorageFaults({}, {})

    def show(self, offline_logs: Mapping[TopicPartition, str]) -> None:
        """Reports the current state of the directories, and the given offline logs."""
        faults = storage_faults(
            self._directories.offline,
            offline_logs,
            metadata_path=self._metadata_path,
            has_usable=any(each.offline is None for each in self._directories.directories),
        )
        self._health.ready.replace(self._shown.not_ready, faults.not_ready)
        self._health.warnings.replace(self._shown.warnings, faults.warnings)
        self._shown = faults
