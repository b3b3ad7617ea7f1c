"""`make up`: runs what there is of the system, and says what there is.

No broker listens yet. What can be run is the log: this writes a small one to ./ottla-data, opens it
again as after a crash, and shows how to look at it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.native import scan
from ottla.protocol.batch import Record, build, read_header
from ottla.protocol.compression import Codec
from ottla.protocol.primitives import Uuid
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import RealFiles
from ottla.storage.checkpoints import MetaProperties, TopicPartition
from ottla.storage.config import LogConfig
from ottla.storage.directory import LogDirectory, open_directory

DATA = Path("ottla-data").absolute()
ORDERS = TopicPartition("orders", 0)
BATCHES = 100
RECORDS_A_BATCH = 50

clock = RealClock()
entropy = RealEntropy()
steps = 0


@contextmanager
def step(what: str) -> Iterator[None]:
    global steps
    steps += 1
    started = time.perf_counter()
    yield
    print(f" {steps}  {what:<62} {time.perf_counter() - started:6.2f} s", flush=True)


def open_data() -> LogDirectory:
    files = RealFiles()
    meta = MetaProperties.read(files, str(DATA))
    return open_directory(
        files,
        str(DATA),
        cluster_id=meta.cluster_id if meta else str(Uuid(entropy.token(16))),
        node_id=meta.node_id if meta else 1,
        directory_id=Uuid(entropy.token(16)),
        config_of=lambda _: LogConfig(),
        now_ms=clock.wall_ms(),
    )


def write_orders(directory: LogDirectory) -> None:
    log = directory.logs.get(ORDERS) or directory.create(
        ORDERS, Uuid(entropy.token(16)), clock.wall_ms()
    )
    now_ms = clock.wall_ms()
    for number in range(BATCHES):
        records = [
            Record(index, now_ms, b"customer-%d" % (index % 7), b'{"order":%d}' % (number + index))
            for index in range(RECORDS_A_BATCH)
        ]
        batch = bytes(build(records, codec=Codec(number % len(Codec))))
        log.append(batch, read_header(batch), leader_epoch=0, now_ms=now_ms)


def main() -> None:
    compiled = "interpreted" if scan.__file__.endswith(".py") else "compiled"
    with step(f"native package: {compiled}"):
        DATA.mkdir(exist_ok=True)
    with step("log directory: locked, stamped, opened"):
        directory = open_data()
    with step(f"orders-0: {BATCHES * RECORDS_A_BATCH} records appended, in every codec"):
        write_orders(directory)
    with step("closed: flushed, sealed, marked clean"):
        directory.close(broker_epoch=0, now_ms=clock.wall_ms())
    print(f"\nData   {DATA}")
    print("Kafka  no broker listens yet: the log, its wire format and its tools are what there is")
    print("\nTry    .venv/bin/ottla log dump ottla-data/orders-0 --records | head")
    print("       .venv/bin/ottla log verify ottla-data")
    print("Wipe   rm -r ottla-data")


if __name__ == "__main__":
    main()
