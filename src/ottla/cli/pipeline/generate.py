"""`ottla pipeline generate`: sends generated records to a topic."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.admin.cluster import Admin, NewTopic
from ottla.client.producer.partitioner import partition_of
from ottla.client.producer.send import produce
from ottla.client.routing.outcomes import unwrap
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
# With `--rate`, the time that a chunk spans.
CHUNK_MS = 200
# Events per second without `--rate`.
RATE_DEFAULT = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """The options of `ottla pipeline generate`."""

    pipeline: Pipeline
    topic: str
    partitions: int
    records: int
    seed: int
    # None: all at once, with timestamps up to now.
    rate: float | None


async def send_generated(
    router: Router, options: GenerateOptions, clock: Clock | None = None
) -> None:
    """Returns once all in-sync replicas have acknowledged every record. ClientError."""
    clock = clock or RealClock()
    partitions = await _create_topic(router, options)
    sent = 0
    try:
        async for chunk in _chunks(options, clock):
            await _send(router, options.topic, partitions, chunk)
            sent += len(chunk)
    finally:
        say(f"sent {counted(sent, 'record')} to {options.topic}")


async def _create_topic(router: Router, options: GenerateOptions) -> int:
    """Creates the topic if it is missing. Returns its number of partitions."""
    created = await Admin(router).create_topics([NewTopic(options.topic, options.partitions)])
    refusal = created[options.topic]
    if refusal is not None and refusal.code != ErrorCode.TOPIC_ALREADY_EXISTS:
        raise refusal
    return len((await router.topic(options.topic)).partitions)


async def _chunks(options: GenerateOptions, clock: Clock) -> AsyncIterator[list[GeneratedRecord]]:
    """Chunks of records; with a rate, each at the time of its last record."""
    rate = options.rate or RATE_DEFAULT
    start_ms = clock.wall_ms()
    start_ns = clock.steady_ns()
    if options.rate is None:
        start_ms -= int(options.records / rate * 1000)
    generate = pipeline_generator(options.pipeline)
    chunk: list[GeneratedRecord] = []
    for record in islice(generate(options.seed, start_ms, rate), options.records):
        is_full = len(chunk) == CHUNK_RECORDS
        if options.rate is not None and chunk:
            is_full |= record.timestamp_ms >= chunk[0].timestamp_ms + CHUNK_MS
        if is_full:
            yield chunk
            chunk = []
            if options.rate is not None:
                await _sleep_until(start_ns + (record.timestamp_ms - start_ms) * NS_PER_MS, clock)
        chunk.append(record)
    if chunk:
        yield chunk


async def _sleep_until(moment_ns: int, clock: Clock) -> None:
    """Sleeps by the steady clock, so that a change of the wall clock does not matter."""
    await asyncio.sleep(max(0, moment_ns - clock.steady_ns()) / 1e9)


async def _send(
    router: Router, topic: str, partitions: int, records: Sequence[GeneratedRecord]
) -> None:
    grouped: dict[TopicPartition, list[Record]] = {}
    for key, value, timestamp_ms in records:
        partition = TopicPartition(topic, partition_of(key, partitions))
        batch = grouped.setdefault(partition, [])
        batch.append(Record(len(batch), timestamp_ms, key, value, ()))
    batches = {partition: build(batch, codec=Codec.LZ4) for partition, batch in grouped.items()}
    for outcome in (await produce(router, batches, Acks.ALL)).values():
        unwrap(outcome)
