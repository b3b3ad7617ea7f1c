"""Sends a batch to a broker as it is, whatever it is."""

from typing import Any

from ottla.client.blocking.client import BlockingClient
from ottla.errors import ErrorCode
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from ottla.protocol.topic_partition import TopicPartition

# The last version that names topics.
VERSION = 12


def send_batch(servers: str, topic: str, batch: bytes | bytearray, partition: int = 0) -> Any:
    """What the leader answers about the partition."""
    data = (Topic(name=topic, partition_data=(Partition(index=partition, records=bytes(batch)),)),)
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)
    with BlockingClient(servers) as client:
        leader = client.router.leader(TopicPartition(topic, partition))
        response: Any = leader.ask(request, version_max=VERSION)
    ((result,),) = [each.partition_responses for each in response.responses]
    return result


def store_batch(servers: str, topic: str, batch: bytes | bytearray, partition: int = 0) -> None:
    """The same of a batch that is taken."""
    result = send_batch(servers, topic, batch, partition)
    assert result.error_code == ErrorCode.NONE, ErrorCode(result.error_code)
