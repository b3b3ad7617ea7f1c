"""Opens a node's log directories: checks them and their owner, and recovers their logs."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.broker.node.context import NodeContext
from ottla.metadata.configs import topic_configs
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.protocol.primitives import Uuid
from ottla.replication.replica import TopicRules
from ottla.replication.rules import topic_rules
from ottla.seams.files import Files, Lock
from ottla.settings.table import node, segments
from ottla.storage.directory.checkpoint_files import MetaProperties
from ottla.storage.directory.directories import LogDirectories
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import (
    find_placements,
    lock_directories,
    make_directory,
    open_directory,
    prepare_directories,
)
from ottla.storage.directory.future_log import settle_swaps
from ottla.storage.directory.placements import Placements

# In the clean shutdown marker of a broker that has not registered.
NO_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class PreparedDirectories:
    """The log directories before anything in them is opened. They are locked."""

    # The directory that stores this broker's incarnation.
    home: str
    usable: Sequence[str]
    failed: dict[str, Exception]
    placements: Placements | None
    # Of directories that are not opened yet.
    locks: dict[str, Lock]

    def release(self) -> None:
        """Unlocks the directories that were not opened."""
        while self.locks:
            self.locks.popitem()[1].release()


def prepare_log_dirs(
    files: Files, log_dirs: Sequence[str], node_id: int, home: str
) -> PreparedDirectories:
    """Creates, locks and checks the log directories. Unusable ones are in `failed`.

    StorageError if one belongs to another broker.
    """
    ordered = [home, *(path for path in log_dirs if path != home)]
    make_directory(files, home)
    placements = find_placements(files, ordered)
    failed = prepare_directories(files, ordered, placements)
    usable = [path for path in ordered if path not in failed]
    locks = lock_directories(files, usable, node_id)
    return PreparedDirectories(home, usable, failed, placements, locks)


def proposed_cluster_id(context: NodeContext, home: str) -> str:
    """The cluster id that the home stores, or a new one: for a store that has none yet."""
    meta = MetaProperties.read(context.seams.files, home)
    return meta.cluster_id if meta else str(_new_id(context))


def open_log_dirs(
    context: NodeContext,
    prepared: PreparedDirectories,
    publisher: Publisher,
    *,
    cluster_id: str,
) -> LogDirectories:
    """Opens the usable log directories, and recovers their logs."""
    opened: list[LogDirectory] = []
    failed = prepared.failed
    for path in prepared.usable:
        try:
            lock = prepared.locks.pop(path, None)
            opened.append(_open_directory(context, path, publisher, cluster_id, lock))
        except OSError as error:
            failed[path] = error
        except BaseException:
            for directory in opened:
                directory.close(broker_epoch=NO_BROKER_EPOCH)
            raise
    settle_swaps(context.seams.files, opened)
    _log_outcome(context, opened, failed)
    return LogDirectories(opened, failed, prepared.placements)


def rules_of(context: NodeContext, image: Image, topic: str) -> TopicRules:
    """The rules of a topic under the current settings."""
    return topic_rules(topic_configs(image, topic, context.dynamic_settings.current))


def _open_directory(
    context: NodeContext, path: str, publisher: Publisher, cluster_id: str, lock: Lock | None
) -> LogDirectory:
    return open_directory(
        context.seams.files,
        path,
        cluster_id=cluster_id,
        node_id=context.settings[node.NODE_ID],
        directory_id=_new_id(context),
        config_of=lambda partition: rules_of(context, publisher.image, partition.topic).log,
        clock=context.seams.clock,
        open_files_max=context.settings[segments.FILES_OPEN_MAX],
        lock=lock,
    )


def _log_outcome(
    context: NodeContext, opened: Sequence[LogDirectory], failed: dict[str, Exception]
) -> None:
    logger = context.logger
    for path, fault in failed.items():
        logger.error("log directory offline", path=path, error=str(fault))
    for directory in opened:
        for partition, reason in directory.unusable.items():
            logger.error("log offline", partition=str(partition), error=str(reason))
        for partition, recovery in directory.recoveries.items():
            context.metrics.broker.recovered_bytes += recovery.scanned_bytes
            if recovery.cut_because:
                logger.warning("log cut", partition=str(partition), **recovery._asdict())


def _new_id(context: NodeContext) -> Uuid:
    return Uuid(context.seams.entropy.token(16))
