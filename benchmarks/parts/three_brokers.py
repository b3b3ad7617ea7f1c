"""Three brokers in one process, on real disks, with their metadata in memory."""

import io
from collections.abc import Sequence

from ottla.broker.event_log import Level, NodeLogger
from ottla.broker.node.context import Seams
from ottla.broker.node.node import Node
from ottla.metadata.image import Image
from ottla.metadata.memory import MemoryEnsemble, MemoryStore
from ottla.metadata.publisher import Publisher
from ottla.metadata.records import Partition, Record, Topic
from ottla.metadata.store import MetadataStore
from ottla.protocol.primitives import Uuid
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import Files, RealFiles
from ottla.seams.net import Net
from ottla.seams.threads import RealThreads
from ottla.seams.workers import RealWorkers
from ottla.settings.sources import load

BROKERS = 3


class Stores:
    """Opens the store of one broker. `store` is the last opened one."""

    is_shared = True

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self._ensemble = ensemble
        self.store: MemoryStore | None = None

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        del files
        return log_dirs[0]

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        del seams, home
        self.store = self._ensemble.connect()
        return self.store


def three_nodes(
    directory: str, ensemble: MemoryEnsemble, threads: RealThreads, net: Net
) -> list[Node]:
    """Brokers 1 to 3, not started."""
    return [
        make_node(number, f"{directory}/{number}", Stores(ensemble), threads, net)
        for number in range(1, BROKERS + 1)
    ]


def make_node(number: int, directory: str, stores: Stores, threads: RealThreads, net: Net) -> Node:
    given = {
        "node.id": str(number),
        "log.dirs": directory,
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "ottla.metrics.port": "0",
        "ottla.disk.reserve.bytes": "0",
        "min.insync.replicas": "2",
    }
    clock = RealClock()
    seams = Seams(clock, RealEntropy(), RealFiles(), net, threads, RealWorkers())
    logger = NodeLogger(io.StringIO(), clock, number, level=Level.ERROR)
    return Node(load(given=given, environment={}, file=None), seams, logger, stores=stores)


def publisher_of(node: Node) -> Publisher:
    publisher = node._publisher
    if publisher is None:
        raise RuntimeError("the node is not started")
    return publisher


def add_topic(image: Image, number: int, partitions: int) -> list[Record]:
    """The records of a topic with three replicas per partition, which lead in turn."""
    topic_id = Uuid((number + 1).to_bytes(16, "big"))
    members = [broker.incarnation for _, broker in sorted(image.brokers.items())]
    records: list[Record] = [Topic(f"topic-{number}", topic_id)]
    for index in range(partitions):
        turned = [*members[index % BROKERS :], *members[: index % BROKERS]]
        records.append(
            Partition(
                topic_id=topic_id,
                index=index,
                replicas=tuple(each.broker_id for each in turned),
                leader=turned[0],
                leader_epoch=0,
                isr=tuple(turned),
                min_isr=2,
                partition_epoch=0,
            )
        )
    return records
