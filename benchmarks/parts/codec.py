"""The codec: messages per second of Metadata, Fetch and Produce, decoded and encoded."""

from collections.abc import Callable, Sequence

from benchmarks.parts.part import Part, rates
from ottla.protocol.codec import decode, encode
from ottla.protocol.messages import fetch, metadata, produce
from ottla.protocol.primitives import Uuid

TOPIC_ID = Uuid(bytes(range(16)))
MESSAGES = 20_000


def metadata_response(partitions: int) -> metadata.MetadataResponse:
    return metadata.MetadataResponse(
        brokers=(metadata.Broker(node_id=1, host="127.0.0.1", port=9092),),
        cluster_id="ottla-benchmark-cluster",
        controller_id=1,
        topics=(
            metadata.Topic(
                error_code=0,
                name="orders",
                topic_id=TOPIC_ID,
                partitions=tuple(
                    metadata.Partition(
                        error_code=0,
                        partition_index=index,
                        leader_id=1,
                        leader_epoch=3,
                        replica_nodes=(1, 2, 3),
                        isr_nodes=(1, 2, 3),
                        offline_replicas=(),
                    )
                    for index in range(partitions)
                ),
            ),
        ),
    )


def fetch_request(partitions: int) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        topics=(
            fetch.Topic(
                topic_id=TOPIC_ID,
                partitions=tuple(
                    fetch.Partition(
                        partition=index, fetch_offset=1 << 33, partition_max_bytes=1 << 20
                    )
                    for index in range(partitions)
                ),
            ),
        ),
    )


def fetch_response(partitions: int) -> fetch.FetchResponse:
    return fetch.FetchResponse(
        responses=(
            fetch.TopicResult(
                topic_id=TOPIC_ID,
                partitions=tuple(
                    fetch.PartitionResult(
                        partition_index=index,
                        error_code=0,
                        high_watermark=1 << 33,
                        last_stable_offset=1 << 33,
                        log_start_offset=0,
                        aborted_transactions=None,
                        records=bytes(16_384),
                    )
                    for index in range(partitions)
                ),
            ),
        )
    )


def produce_request() -> produce.ProduceRequest:
    return produce.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=(
            produce.Topic(
                topic_id=TOPIC_ID,
                partition_data=(produce.Partition(index=0, records=bytes(16_384)),),
            ),
        ),
    )


def repeat(work: Callable[[], object], times: int) -> Callable[[], float]:
    def run() -> float:
        for _ in range(times):
            work()
        return times

    run()
    return run


def pair(
    name: str, message: object, version: int, times: int, us: tuple[float, float]
) -> list[Part]:
    declared = type(message)
    frame = b"".join(bytes(part) for part in encode(message, version))
    because = "50 ns per field, 0.2 us per string or nested struct"
    decoded = rates(repeat(lambda: decode(declared, version, frame), times))
    encoded = rates(repeat(lambda: encode(message, version), times))
    return [
        Part(
            name=f"decode {name}",
            unit="messages/s",
            figures=decoded,
            estimate=1e6 / us[0],
            because=because,
        ),
        Part(
            name=f"encode {name}",
            unit="messages/s",
            figures=encoded,
            estimate=1e6 / us[1],
            because=because,
        ),
    ]


def measure() -> Sequence[Part]:
    return [
        *pair("Produce request, 1 partition, 16 KB", produce_request(), 13, MESSAGES, (4, 4)),
        *pair("Fetch request, 1 partition", fetch_request(1), 18, MESSAGES, (4, 4)),
        *pair("Fetch request, 100 partitions", fetch_request(100), 18, MESSAGES // 50, (80, 80)),
        *pair("Fetch response, 1 partition, 16 KB", fetch_response(1), 18, MESSAGES, (4, 4)),
        *pair("Metadata response, 100 partitions", metadata_response(100), 13, 400, (150, 150)),
    ]
