"""Observations of a broker from outside: its responses, its files, its connections.

Each function observes a broker that has a topic with one record.
"""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any, cast

from ottla.errors import ErrorCode
from ottla.protocol.batch import Record, build, plain_records, read_header, recompressed
from ottla.protocol.compression import Codec
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.messages.list_offsets import ListOffsetsRequest, Partition, Topic
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.primitives import ZERO_UUID
from tests.support.broker.nodes import framed
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.broker.simulated_broker import HOST, PORT, Client, Machine, create, new_topic

TOPIC = "orders"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
# Longer than the period of the background work.
A_WHILE_S = 5
EARLIEST = -2


class Caller(asyncio.Protocol):
    """A connection that sends any bytes."""

    def __init__(self) -> None:
        self.is_over = False
        self.is_answered = asyncio.Event()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.is_answered.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True

    def send(self, part: bytes) -> None:
        self._transport.write(part)

    def stop_reading(self) -> None:
        self._transport.pause_reading()

    def read_on(self) -> None:
        self._transport.resume_reading()

    def close(self) -> None:
        self._transport.close()


@dataclass(frozen=True, slots=True)
class World:
    """A running broker and its client."""

    machine: Machine
    client: Client

    @property
    def now_ms(self) -> int:
        return self.machine.clock.wall_ms()

    async def send(self, records: bytes | bytearray, partition: int = 0) -> Any:
        """The broker's response to one batch."""
        return only(await self.client.ask(produce(TOPIC, records, partition=partition), 9))

    async def send_value(self, value: bytes = b"value", *, later_ms: int = 0) -> ErrorCode:
        """The outcome of one record with a timestamp this much later than now."""
        answer = await self.send(batch(value, timestamp_ms=self.now_ms + later_ms))
        return ErrorCode(answer.error_code)

    async def send_of_producer(self, producer_id: int, sequence: int) -> ErrorCode:
        answer = await self.send(
            batch(
                timestamp_ms=self.now_ms,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
            )
        )
        return ErrorCode(answer.error_code)

    async def start_offset(self) -> int:
        asked = Topic(name=TOPIC, partitions=(Partition(partition_index=0, timestamp=EARLIEST),))
        answer = await self.client.ask(ListOffsetsRequest(replica_id=-1, topics=(asked,)))
        return int(only(answer).offset)

    def files(self, pattern: str) -> dict[str, bytes]:
        found = self.machine.disk.files()
        return {path: found[path] for path in sorted(found) if fnmatch(path, pattern)}

    def segments(self) -> int:
        return len(self.files(f"/data/{TOPIC}-0/*.log"))

    def recovery_point(self) -> int:
        """The recovery point in the checkpoint file; 0 if it has none."""
        (content,) = self.files("/data/recovery-point-offset-checkpoint").values() or (b"",)
        for line in content.decode().splitlines():
            if line.startswith(f"{TOPIC} 0 "):
                return int(line.split()[-1])
        return 0

    async def caller(self, port: int = PORT, host: str = HOST) -> Caller:
        """A connection from that host. ConnectionError if there is no listener."""
        caller: Any = await self.machine.network.host(host).connect(Caller, HOST, port)
        return cast("Caller", caller)

    async def can_connect(self, port: int = PORT, host: str = HOST) -> bool:
        """Whether a connection from that host is accepted and stays open."""
        try:
            caller = await self.caller(port, host)
        except ConnectionError:
            return False
        await asyncio.sleep(1)
        caller.close()
        return not caller.is_over


async def is_answered(caller: Caller) -> bool:
    """Whether a response arrives soon."""
    with suppress(TimeoutError):
        async with asyncio.timeout(A_WHILE_S):
            await caller.is_answered.wait()
    return caller.is_answered.is_set()


async def large_batch(world: World) -> ErrorCode:
    return await world.send_value(bytes(500))


async def time_of_append(world: World) -> bool:
    return int((await world.send(batch(timestamp_ms=world.now_ms))).log_append_time_ms) != -1


async def old_record(world: World) -> ErrorCode:
    return await world.send_value(later_ms=-2 * HOUR_MS)


async def record_of_the_future(world: World) -> ErrorCode:
    return await world.send_value(later_ms=30 * MINUTE_MS)


async def start_after_three_days(world: World) -> int:
    world.machine.clock.jump_wall(3 * DAY_MS)
    await world.send_value()
    await asyncio.sleep(A_WHILE_S)
    return await world.start_offset()


async def start_of_three_segments(world: World) -> int:
    for number in (1, 2):
        await world.send_value(later_ms=number * MINUTE_MS)
    await asyncio.sleep(A_WHILE_S)
    return await world.start_offset()


async def files_of_a_deleted_topic(world: World) -> bool:
    topics = (DeletedTopic(name=TOPIC, topic_id=ZERO_UUID),)
    await world.client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=1000))
    await asyncio.sleep(A_WHILE_S)
    return bool(world.files(f"/data/{TOPIC}-0*"))


async def segments_of_large_batches(world: World) -> int:
    for _ in range(2):
        await world.send_value(bytes(700_000))
    return world.segments()


async def segments_of_many_batches(world: World) -> int:
    for _ in range(4):
        await world.send_value()
    return world.segments()


async def segments_of_two_days(world: World) -> int:
    world.machine.clock.jump_wall(2 * DAY_MS)
    await world.send_value()
    return world.segments()


async def entries_of_an_index(world: World) -> bool:
    """The index entries of the second segment, written with the current setting."""
    while world.segments() < 3:
        await world.send_value(bytes(70_000))
    return len(list(world.files(f"/data/{TOPIC}-0/*.index").values())[1]) > 0


async def checkpoint_after_a_while(world: World) -> int:
    await world.send_value()
    await asyncio.sleep(2 * A_WHILE_S)
    return world.recovery_point()


async def min_isr_of_partitions(world: World) -> int:
    """`min_isr` in the metadata; its effect cannot be observed without followers."""
    log = b"".join(world.files("/data/__ottla_metadata-0/*.log").values())
    return int(re.findall(rb'"min_isr":([0-9]+)', log)[-1])


async def second_connection(world: World) -> bool:
    return await world.can_connect()


async def gap_in_a_sequence(world: World) -> ErrorCode:
    """The error of a gap, which only a known producer gets."""
    await world.send_of_producer(7, 0)
    await world.send_of_producer(8, 0)
    await asyncio.sleep(A_WHILE_S)
    return await world.send_of_producer(7, 5)


async def answer_after_silence(world: World) -> bool:
    caller = await world.caller()
    await asyncio.sleep(A_WHILE_S)
    caller.send(framed(MetadataRequest(topics=()), 9))
    return await is_answered(caller)


async def answer_to_a_large_request(world: World) -> bool:
    caller = await world.caller()
    caller.send(framed(produce(TOPIC, batch(bytes(5_000))), 9))
    return await is_answered(caller)


async def answer_to_a_large_question(world: World) -> bool:
    caller = await world.caller()
    asked = tuple(RequestedTopic(name=f"{TOPIC}-{number}") for number in range(500))
    caller.send(framed(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 9))
    return await is_answered(caller)


async def answer_to_a_question_of_many_names(world: World) -> bool:
    caller = await world.caller()
    asked = tuple(RequestedTopic(name=f"{TOPIC}-{number}") for number in range(10_001))
    caller.send(framed(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 9))
    return await is_answered(caller)


async def topics_made_of_three(world: World) -> int:
    topics = tuple(new_topic(f"{TOPIC}-{number}") for number in range(3))
    answer = await world.client.ask(CreateTopicsRequest(topics=topics))
    return sum(each.error_code == ErrorCode.NONE for each in answer.topics)


async def clients_left_of_those_that_never_read(world: World) -> int:
    """The remaining connections of three clients that fetch without reading."""
    callers = [await world.caller() for _ in range(3)]
    for caller in callers:
        caller.stop_reading()
        caller.send(framed(ApiVersionsRequest(), 0) * 1_000)
    await asyncio.sleep(A_WHILE_S)
    for caller in callers:
        caller.read_on()
    await asyncio.sleep(A_WHILE_S)
    return sum(not caller.is_over for caller in callers)


async def answer_beside_unfinished_requests(world: World) -> bool:
    """The response to a request in two parts, beside two incomplete requests."""
    request = framed(produce(TOPIC, batch(bytes(900_000))), 9)
    callers = [await world.caller() for _ in range(3)]
    for caller in callers:
        caller.send(request[:800_000])
        await asyncio.sleep(0.1)
    callers[-1].send(request[800_000:])
    return await is_answered(callers[-1])


async def start_after_a_while(world: World) -> int:
    await asyncio.sleep(A_WHILE_S)
    await world.send_value()
    await asyncio.sleep(A_WHILE_S)
    return await world.start_offset()


async def record_on_a_disk_like_this(world: World) -> ErrorCode:
    await asyncio.sleep(A_WHILE_S)
    return await world.send_value()


async def record_for_a_log_that_cannot_be_opened(world: World) -> ErrorCode:
    """Succeeds unless the log's file was closed when others were opened."""
    for partition in range(20):
        await world.send(batch(timestamp_ms=world.now_ms), partition)
    world.machine.disk.faults.fail_next("open", f"/data/{TOPIC}-0/*.log")
    return await world.send_value()


async def batch_that_unpacks_to_much(world: World) -> ErrorCode:
    records = [Record(0, world.now_ms, None, bytes(100_000))]
    return ErrorCode((await world.send(build(records, codec=Codec.GZIP))).error_code)


async def codec_on_disk(world: World) -> Codec:
    """The codec on disk of a batch that was sent uncompressed."""
    await world.send_value(bytes(500))
    return Codec(read_header(await _last_batch(world)).codec)


NUMBERS = b" ".join(b"%d" % (n * n % 977) for n in range(4000))


def bytes_of_numbers(codec: Codec, level: int) -> int:
    """The size of a compressed batch of numbers."""
    plain = build([Record(0, 0, None, NUMBERS)])
    return len(recompressed(read_header(plain), plain_records(plain), codec, level))


async def compressed_bytes(world: World) -> int:
    """The size of a batch of numbers on disk."""
    await world.send_value(NUMBERS)
    return len(await _last_batch(world))


async def _last_batch(world: World) -> bytes:
    (content,) = world.files(f"/data/{TOPIC}-0/*.log").values()
    position = 0
    while (header := read_header(content, position)).size < len(content) - position:
        position += header.size
    return content[position:]


async def warning_of_a_short_stall(world: World) -> bool:
    world.machine.clock.advance(ms=80)
    await asyncio.sleep(A_WHILE_S)
    return "loop stalled" in world.machine.notes.events("warning")


async def metrics_elsewhere(world: World) -> bool:
    return await world.can_connect(9999)


async def metrics_for_others(world: World) -> bool:
    return await world.can_connect(9644, host="two")


async def kafka_for_others(world: World) -> bool:
    return await world.can_connect(host="two")


async def number_of_the_broker(world: World) -> int:
    (broker,) = (await world.client.ask(MetadataRequest(topics=()))).brokers
    return int(broker.node_id)


async def address_of_the_broker(world: World) -> tuple[str, int]:
    (broker,) = (await world.client.ask(MetadataRequest(topics=()))).brokers
    return broker.host, broker.port


async def partitions_of_a_new_topic(world: World) -> int:
    await create(world.client, new_topic("new", -1))
    (topic,) = (
        await world.client.ask(MetadataRequest(topics=(RequestedTopic(name="new"),)))
    ).topics
    return len(topic.partitions)


async def topics_made_for_one_request(world: World) -> int:
    """The number of created topics of a Metadata request for five."""
    names = [RequestedTopic(name=f"new-{number}") for number in range(5)]
    asked = MetadataRequest(topics=tuple(names), allow_auto_topic_creation=True)
    await world.client.ask(asked)
    await asyncio.sleep(1)
    topics = (await world.client.ask(asked)).topics
    return sum(topic.error_code == ErrorCode.NONE for topic in topics)


async def topic_that_was_only_asked_for(world: World) -> bool:
    asked = MetadataRequest(topics=(RequestedTopic(name="new"),), allow_auto_topic_creation=True)
    await world.client.ask(asked)
    await asyncio.sleep(1)
    (topic,) = (await world.client.ask(asked)).topics
    return int(topic.error_code) == ErrorCode.NONE
