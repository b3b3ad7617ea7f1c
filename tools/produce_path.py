"""Counts the Python functions and files of Ottla that one request passes in a broker.

    .venv/bin/python tools/produce_path.py [--names]

A warm broker in this process gets one produce request of each kind over a real socket, with the
profiler on. Compiled functions do not count.
"""

import argparse
import socket
import struct
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from ottla.protocol import batch
from ottla.protocol.exchange import encode_request
from ottla.protocol.messages import APIS
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.create_topics import Topic as NewTopic
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from ottla.testing import Broker

PRODUCE, CREATE_TOPICS = 0, 19
VERSION = 9
TOPIC = "path"
WARM_UP = 3


class Passed:
    """The functions that the broker's threads enter while it is on."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self.is_on = False
        self.functions: dict[tuple[str, str], int] = {}

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self.is_on and event == "call" and frame.f_code.co_filename.startswith(self._root):
            file = frame.f_code.co_filename.removeprefix(self._root + "/")
            entered = file, frame.f_code.co_qualname
            self.functions[entered] = self.functions.get(entered, 0) + 1


def produce(value: bytes, transactional_id: str | None = None) -> ProduceRequest:
    """One record for one partition."""
    record = batch.Record(0, int(time.time() * 1000), b"key", value, ())
    data = (Partition(index=0, records=bytes(batch.build([record]))),)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1_000,
        topic_data=(Topic(name=TOPIC, partition_data=data),),
    )


def exchange(stream: socket.socket, key: int, version: int, request: object) -> None:
    stream.sendall(b"".join(encode_request(1, APIS[key], version, request, "path")))
    (size,) = struct.unpack(">i", stream.recv(4, socket.MSG_WAITALL))
    stream.recv(size, socket.MSG_WAITALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="print every function")
    names = parser.parse_args().names
    import ottla

    passed = Passed(Path(str(ottla.__file__)).parent)
    threading.setprofile(passed)
    cases = {
        "gathered: one small record": produce(b"v"),
        "native: one record of 16 KB": produce(bytes(16 << 10)),
        "codec: one with a transactional id": produce(b"v", "path"),
    }
    with Broker() as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port))) as stream:
            topic = NewTopic(
                name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=()
            )
            create = CreateTopicsRequest(topics=(topic,), timeout_ms=5_000, validate_only=False)
            exchange(stream, CREATE_TOPICS, 7, create)
            for case, request in cases.items():
                for _ in range(WARM_UP):
                    exchange(stream, PRODUCE, VERSION, request)
                time.sleep(0.2)
                passed.functions.clear()
                passed.is_on = True
                exchange(stream, PRODUCE, VERSION, request)
                passed.is_on = False
                functions = dict(passed.functions)
                files = {file for file, _ in functions}
                calls = sum(functions.values())
                print(f"{case}: {calls} calls, {len(functions)} functions, {len(files)} files")
                if names:
                    for (file, name), count in functions.items():
                        print(f"    {file} {name}" + (f" x{count}" if count > 1 else ""))


if __name__ == "__main__":
    main()
