"""Kafka's small files in a log directory and in partition directories, byte for byte.

Each is replaced as a whole and durably: a crash leaves the old one or the new one.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from ottla.errors import CorruptLog
from ottla.protocol.primitives import Uuid
from ottla.seams.files import Files, put_file, read_file, replace_file
from ottla.storage.directory.checkpoint_format import Line, decode_entries, encode_entries, lines_of

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

# The limit for files with a few short fields.
_SMALL_FILE_BYTES_MAX = 64 << 10
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_DIRECTORY_NAME = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})", re.ASCII)


class TopicPartition(NamedTuple):
    """A partition by topic name, as in checkpoint files and directory names."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """The name of its directory."""
        return f"{self.topic}-{self.partition}"


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition of a directory name. None if it is not the name of a partition.

    Names of deleted and stray partitions (`…-delete`, `…-stray`) are not.
    """
    found = _DIRECTORY_NAME.fullmatch(name)
    return TopicPartition(found[1], int(found[2])) if found else None


def _read_if_there(files: Files, path: str, size_max: int) -> bytes | None:
    return read_file(files, path, size_max) if files.exists(path) else None


# --- offset checkpoints -----------------------------------------------------------------------

_OFFSETS_BYTES_MAX = 64 << 20


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """The offsets of a checkpoint; empty without a file. CorruptLog with the line if garbled."""
    content = _read_if_there(files, path, _OFFSETS_BYTES_MAX)
    offsets: dict[TopicPartition, int] = {}
    for line in decode_entries(content or b"", path):
        topic, partition, offset = line.fields(3)
        if not _TOPIC_NAME.fullmatch(topic):
            raise line.corrupt(f"{topic[:40]!r} is no topic's name")
        name = TopicPartition(topic, line.integer(partition))
        if name in offsets:
            raise line.corrupt(f"{name} is listed twice")
        offsets[name] = line.integer(offset)
    return offsets


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces a checkpoint durably. Partitions are sorted by name."""
    lines = (f"{name.topic} {name.partition} {offset}" for name, offset in sorted(offsets.items()))
    replace_file(files, path, encode_entries(lines))


# --- meta.properties --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The cluster id, node id and directory id of a log directory (`meta.properties`)."""

    cluster_id: str
    node_id: int
    directory_id: str | None = None

    @classmethod
    def read(cls, files: Files, directory: str) -> Self | None:
        """The file that Kafka or Ottla wrote; None if there is none.

        Comments, order and unknown properties do not matter. CorruptLog if an id is missing or the
        version is unknown.
        """
        path = f"{directory}/{META_PROPERTIES}"
        content = _read_if_there(files, path, _SMALL_FILE_BYTES_MAX)
        if content is None:
            return None
        found = _properties(content, path)
        version = found.get("version", "absent")
        if version not in ("0", "1"):
            raise CorruptLog(path, 0, f"version {version[:40]}, only 0 and 1 are known")
        # Kafka wrote version 0 with ZooKeeper.
        node_id = found.get("broker.id" if version == "0" else "node.id", "")
        if not node_id.isdecimal() or not found.get("cluster.id"):
            raise CorruptLog(path, 0, "a node's id and its cluster's id are needed")
        return cls(found["cluster.id"], int(node_id), found.get("directory.id"))

    def write(self, files: Files, directory: str) -> None:
        """Writes the file, durably."""
        properties = {"version": "1", "cluster.id": self.cluster_id, "node.id": str(self.node_id)}
        if self.directory_id is not None:
            properties["directory.id"] = self.directory_id
        content = "".join(f"{name}={value}\n" for name, value in properties.items())
        replace_file(files, f"{directory}/{META_PROPERTIES}", content.encode())


def _properties(content: bytes, path: str) -> dict[str, str]:
    """The properties of a Java properties file."""
    found: dict[str, str] = {}
    for line in lines_of(content, path):
        text = line.text.strip()
        if text and text[0] not in "#!":
            name, _, value = text.partition("=")
            # Java puts a backslash before some characters.
            found[name.strip()] = re.sub(r"\\(.)", r"\1", value.strip())
    return found


# --- partition.metadata -----------------------------------------------------------------------


def read_partition_metadata(files: Files, directory: str) -> Uuid | None:
    """The topic id of a partition directory; None without a file. CorruptLog if garbled."""
    path = f"{directory}/{PARTITION_METADATA}"
    content = _read_if_there(files, path, _SMALL_FILE_BYTES_MAX)
    if content is None:
        return None
    lines = list(lines_of(content, path))
    if len(lines) != 2 or lines[0].text != "version: 0":
        raise CorruptLog(path, 0, "`version: 0` and a topic id are expected")
    return _topic_id(lines[1])


def write_partition_metadata(files: Files, directory: str, topic_id: Uuid) -> None:
    """Writes the topic id of a partition directory. The first flush makes it durable."""
    # Kafka ends the last line here without a line feed.
    content = f"version: 0\ntopic_id: {topic_id}"
    put_file(files, f"{directory}/{PARTITION_METADATA}", content.encode())


def _topic_id(line: Line) -> Uuid:
    name, _, text = line.text.partition(": ")
    try:
        topic_id = Uuid.parse(text)
    except ValueError:
        raise line.corrupt(f"{text[:40]!r} is no topic id") from None
    if name != "topic_id":
        raise line.corrupt(f"`topic_id` expected, {name[:40]!r} found")
    return topic_id


# --- clean shutdown marker --------------------------------------------------------------------


def read_clean_shutdown(files: Files, directory: str) -> int | None:
    """The broker epoch of the last clean shutdown; None if the last one was not clean.

    An unreadable marker counts as none: recovery then scans the logs.
    """
    content = _read_if_there(files, f"{directory}/{CLEAN_SHUTDOWN}", _SMALL_FILE_BYTES_MAX)
    try:
        marker = json.loads(content or b"")
    except ValueError:
        return None
    epoch = marker.get("brokerEpoch") if isinstance(marker, dict) else None
    return epoch if type(epoch) is int else None


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int) -> None:
    """Writes the marker, as the last step of a clean shutdown. Durable on return."""
    marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(files, f"{directory}/{CLEAN_SHUTDOWN}", marker.encode())


def remove_clean_shutdown(files: Files, directory: str) -> None:
    """Removes the marker, as the first step of a start. Durable on return."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if files.exists(path):
        files.remove(path)
        files.sync_dir(directory)
