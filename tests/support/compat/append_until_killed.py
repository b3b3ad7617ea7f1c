"""Appends to a log directory and prints the acknowledged offsets, until it is killed.

`python -m tests.support.compat.append_until_killed DIRECTORY [BATCHES]`: a line `appended OFFSET`
for each batch that is in the log, `flushed OFFSET` when all before the offset is durable and the
checkpoint says so. Without end, or until `waiting OFFSET` after so many batches.
"""

import sys
from itertools import count

from ottla.protocol.batch import Record, build, read_header
from ottla.protocol.compression import Codec
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.storage.directory.directory_opening import open_directory
from ottla.storage.log.config import LogConfig

CLUSTER_ID = "killed-cluster"
PARTITION = TopicPartition("killed", 0)
CONFIG = LogConfig(segment_bytes=64 << 10, index_interval_bytes=512)
BATCHES_A_FLUSH = 40
FIRST_TIMESTAMP_MS = 1_700_000_000_000


def value_at(offset: int) -> bytes:
    """A distinct value per offset."""
    return f"record {offset} ".encode() * 8


def main(path: str, batches: int | None) -> None:
    directory = open_directory(
        RealFiles(),
        path,
        cluster_id=CLUSTER_ID,
        node_id=1,
        directory_id=Uuid(bytes(16)),
        config_of=lambda _: CONFIG,
        clock=RealClock(),
    )
    log = directory.create(PARTITION, Uuid(b"topic-of-the-kill"[:16]))
    log.begin_epoch(0)
    for number in count(1) if batches is None else range(1, batches + 1):
        first = log.end_offset
        batch = build(
            [
                Record(offset, FIRST_TIMESTAMP_MS + offset, b"%d" % offset, value_at(offset))
                for offset in range(first, first + 1 + number % 5)
            ],
            base_offset=first,
            codec=Codec(number % len(Codec)),
        )
        appended = log.append(batch, read_header(batch), leader_epoch=0)
        print("appended", appended.last_offset, flush=True)
        if number % BATCHES_A_FLUSH == 0:
            log.flush()
            directory.checkpoint()
            print("flushed", log.recovery_point, flush=True)

    print("waiting", log.end_offset, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
