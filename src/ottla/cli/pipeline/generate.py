"""`ottla pipeline generate`: records that were made up, to a real topic."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.admin.cluster import Admin, NewTopic
from ottla.client.producer.partitioner import partition_of
from ottla.client.producer.send import produce
from ottla.client.routing.outcomes import answered
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.acks import Acks
from ottla.protocol.batch import Record, build
from ottla.protocol.compression import Codec
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import Clock, RealClock
from ottla.spark.pipelines.catalogue import GeneratedRecord, Pipeline, pipeline_generator

NS_PER_MS = 1_000_000
CHUNK_RECORDS = 2_000
# With `--rate` a chunk is what comes in so long.
CHUNK_MS = 200
# How many things happen in a second where nobody waits for them.
RATE_DEFAULT = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """What the user wants to have made."""

    pipeline: Pipeline
    topic: str
    partitions: int
    records: int
    seed: int
    # None: all at once, as if it had just happened.
    rate: float | None


async def send_generated(router: Router, wanted: Generated, clock: Clock | None = None) -> None:
    """Returns once every record is acknowledged by all in sync. ClientError."""
    clock = clock or RealClock()
    partitions = await _make_topic(router, wanted)
    sent = 0
    try:
        async for chunk in _chunks(wanted, clock):
            await _send(router, wanted.topic, partitions, chunk)
            sent += len(chunk)
    finally:
        say(f"sent {counted(sent, 'record')} to {wanted.topic}")


async def _make_topic(router: Router, wanted: Generated) -> int:
    """How many partitions it has, which is not for us to say if it is there already."""
    made = await Admin(router).create_topics([NewTopic(wanted.topic, wanted.partitions)])
    refusal = made[wanted.topic]
    if refusal is not None and refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise refusal
    return len((await router.topic(wanted.topic)).partitions)


async def _chunks(wanted: Generated, clock: Clock) -> AsyncIterator[list[GeneratedRecord]]:
    """Records to be sent together, each chunk when its last record comes in."""
    rate = wanted.rate or RATE_DEFAULT
    start_ms = clock.wall_ms()
    start_ns = clock.steady_ns()
    if wanted.rate is None:
        start_ms -= int(wanted.records / rate * 1000)
    generate = pipeline_generator(wanted.pipeline)
    chunk: list[GeneratedRecord] = []
    for record in islice(generate(wanted.seed, start_ms, rate), wanted.records):
        is_full = len(chunk) == CHUNK_RECORDS
        if wanted.rate is not None and chunk:
            is_full |= record.timestamp_ms >= chunk[0].timestamp_ms + CHUNK_MS
        if is_full:
            yield chunk
            chunk = []
            if wanted.rate is not None:
                await _until(start_ns + (record.timestamp_ms - start_ms) * NS_PER_MS, clock)
        chunk.append(record)
    if chunk:
        yield chunk


async def _until(moment_ns: int, clock: Clock) -> None:
    """By the steady clock: records come on time even if somebody sets the wall clock."""
    await asyncio.sleep(max(0, moment_ns - clock.steady_ns()) / 1e9)


async def _send(
    router: Router, topic: str, partitions: int, made: Sequence[GeneratedRecord]
) -> None:
    grouped: dict[TopicPartition, list[Record]] = {}
    for key, value, timestamp_ms in made:
        partition = TopicPartition(topic, partition_of(key, partitions))
        records = grouped.setdefault(partition, [])
        records.append(Record(len(records), timestamp_ms, key, value, ()))
    batches = {partition: build(records, codec=Codec.LZ4) for partition, records in grouped.items()}
    for outcome in (await produce(router, batches, Acks.ALL)).values():
        answered(outcome)
