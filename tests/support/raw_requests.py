"""Requests that no client sends, packed by hand: versions from before flexible fields."""

import socket
import struct
from collections.abc import Mapping
from enum import IntEnum

WAIT_S = 120.0
PRODUCE, PRODUCE_VERSION = 0, 7
OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION = 23, 3
INCREMENTAL_ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS_VERSION = 44, 0
ACKS_ALL = -1
CONSUMER = -1
ANY_EPOCH = -1
SET = 0


class ResourceType(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


def alter_configs(servers: str, kind: ResourceType, name: str, configs: Mapping[str, str]) -> None:
    """Sets them. Without a name the broker configs are those of all brokers."""
    body = struct.pack(">ib", 1, kind) + _string(name) + struct.pack(">i", len(configs))
    for each, value in configs.items():
        body += _string(each) + struct.pack(">b", SET) + _string(value)
    body += struct.pack(">?", False)
    reply = _ask(servers, INCREMENTAL_ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS_VERSION, body)
    _throttle_ms, count, error = struct.unpack_from(">iih", reply)
    assert (count, error) == (1, 0), f"error {error}: {name} {configs}"


def produce(servers: str, topic: str, partition: int, batch: bytes) -> tuple[int, int]:
    """Sends a batch as it is; its error code and base offset."""
    body = struct.pack(">hhi", -1, ACKS_ALL, int(WAIT_S * 1000))
    body += struct.pack(">i", 1) + _string(topic)
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    reply = _ask(servers, PRODUCE, PRODUCE_VERSION, body)
    before = 4 + len(_string(topic)) + 4
    _partition, error, base_offset = struct.unpack_from(">ihq", reply, before)
    return error, base_offset


def epoch_end(servers: str, topic: str, partition: int, leader_epoch: int) -> list[int]:
    """The last leader epoch up to this one that has records, and the offset after its last."""
    body = struct.pack(">ii", CONSUMER, 1) + _string(topic)
    body += struct.pack(">iiii", 1, partition, ANY_EPOCH, leader_epoch)
    reply = _ask(servers, OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION, body)
    before = 4 + 4 + len(_string(topic)) + 4
    error, _partition, found, end_offset = struct.unpack_from(">hiiq", reply, before)
    assert error == 0, f"error {error}: {topic}-{partition}"
    return [found, end_offset]


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _ask(servers: str, api_key: int, version: int, body: bytes) -> bytes:
    host, _, port = servers.rpartition(":")
    request = struct.pack(">hhi", api_key, version, 1) + _string("upgrade") + body
    with socket.create_connection((host, int(port)), WAIT_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as replies:
            (size,) = struct.unpack(">i", replies.read(4))
            reply: bytes = replies.read(size)
    assert len(reply) == size
    return reply[4:]
