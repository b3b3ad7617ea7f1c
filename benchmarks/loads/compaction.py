"""A log with many values per key: the rate of compaction, and its effect on other requests."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from benchmarks.loads.generators import generate
from benchmarks.loads.topics import OnTopic
from benchmarks.peers.peer import ADMIN_S, Peer
from benchmarks.row import LoadFailed, Ran, Scope

SEGMENT_BYTES = 64 << 20
RECORD_BYTES = 100
COMPACTED_S_MAX = 600.0
POLL_INTERVAL_S = 0.005
# The first compaction of a broker is small and not measured.
WARM_UP_SHARE = 0.05
# How soon the cleaner looks for work; the default is 15 s.
BACKOFF = "log.cleaner.backoff.ms", "50"
SMALL_RATE, SMALL_BYTES, SMALL_CONNECTIONS = 1000, 100, 10


# Inode, modification time, size.
FileTag = tuple[int, int, int]


class Compaction(OnTopic):
    """Each run fills a topic with the policy `delete`, and then sets its policy to `compact`.

    The time is from then until all segments except the active one are replaced. In the meantime
    small produce requests go to the load's own topic.
    """

    def __init__(self, *, records: int, keys: int, seconds: float) -> None:
        super().__init__(partitions=6)
        self.records, self.keys, self.seconds = records, keys, seconds
        self._numbers = itertools.count(1)

    def fill(self, peer: Peer, scope: Scope) -> None:
        _alter(peer, ConfigResource(ResourceType.BROKER, "1"), *BACKOFF)
        self.run(peer, Scope(scope.scale * WARM_UP_SHARE))

    def run(self, peer: Peer, scope: Scope) -> Ran:
        topic = f"{self.topic}-compacted-{next(self._numbers)}"
        # Several segments, however small the scale is.
        segment_bytes = max(1 << 20, round(SEGMENT_BYTES * min(1.0, scope.scale)))
        with _topic(peer, topic, segment_bytes):
            load = (topic, scope.count(self.records), scope.count(self.keys), RECORD_BYTES)
            generate("keyed", peer, *load)
            dirty = _dirty_segments(peer, topic)
            dirty_bytes = sum(path.stat().st_size for path in dirty)
            with self._small_produces(peer, scope) as said:
                _alter(peer, ConfigResource(ResourceType.TOPIC, topic), "cleanup.policy", "compact")
                compacted_s = _await_compacted(dirty)
        return Ran(figures={"mb_s": dirty_bytes / 1e6 / compacted_s, "p99_us": said["p99_us"]})

    def finish(self, peer: Peer) -> None:
        _alter(peer, ConfigResource(ResourceType.BROKER, "1"), BACKOFF[0], None)
        super().finish(peer)

    @contextmanager
    def _small_produces(self, peer: Peer, scope: Scope) -> Iterator[dict[str, float]]:
        """Runs small produce requests in the background; their figures are there afterwards."""
        said: dict[str, float] = {}
        seconds = scope.seconds(self.seconds)
        load = (self.topic, self.partitions, SMALL_CONNECTIONS, seconds, SMALL_BYTES, 1, SMALL_RATE)

        def produce() -> None:
            said.update(generate("produce", peer, *load))

        client = threading.Thread(target=produce, name="small-produces")
        client.start()
        try:
            yield said
        finally:
            client.join()
        if not said:
            raise LoadFailed("the small produces failed")


@contextmanager
def _topic(peer: Peer, name: str, segment_bytes: int) -> Iterator[None]:
    """A topic of one partition, deleted afterwards."""
    admin = AdminClient({"bootstrap.servers": peer.address})
    config = {"cleanup.policy": "delete", "segment.bytes": str(segment_bytes)}
    topic = NewTopic(name, num_partitions=1, replication_factor=1, config=config)
    admin.create_topics([topic], operation_timeout=ADMIN_S)[name].result(ADMIN_S)
    try:
        peer.await_served(name, 1)
        yield
    finally:
        peer.delete_topic(name)


def _alter(peer: Peer, resource: ConfigResource, name: str, value: str | None) -> None:
    """Sets one setting, or resets it."""
    kind = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
    entry = ConfigEntry(name, value or "", incremental_operation=kind)
    resource.add_incremental_config(entry)
    admin = AdminClient({"bootstrap.servers": peer.address})
    admin.incremental_alter_configs([resource])[resource].result(ADMIN_S)


def _dirty_segments(peer: Peer, topic: str) -> dict[Path, FileTag]:
    """All segments except the active one, which is not compacted."""
    paths = sorted((peer.log_directory / f"{topic}-0").glob("*.log"))
    if len(paths) < 2:
        raise LoadFailed("the log is too short to compact")
    return {path: _tag(path) for path in paths[:-1]}


def _tag(path: Path) -> FileTag:
    """Identifies a file among files of the same name; an inode alone may be reused."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_unchanged(path: Path, tag: FileTag) -> bool:
    try:
        return _tag(path) == tag
    except FileNotFoundError:
        return False


def _await_compacted(dirty: dict[Path, FileTag]) -> float:
    """Seconds until every segment is removed or replaced."""
    began = time.monotonic()
    while any(_is_unchanged(path, tag) for path, tag in dirty.items()):
        if time.monotonic() - began > COMPACTED_S_MAX:
            raise LoadFailed(f"the log is not compacted after {COMPACTED_S_MAX:.0f} s")
        time.sleep(POLL_INTERVAL_S)
    return time.monotonic() - began
