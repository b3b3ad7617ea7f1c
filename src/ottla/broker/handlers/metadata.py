"""Metadata (3) v0-13. A topic that is missing is made where that is allowed, and is there when the
client asks again. Gaps: none.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.broker.requests.advertised_addresses import BrokerAddress, present_brokers
from ottla.broker.requests.authorized_operations import ALL_OF_A_TOPIC, ALL_OF_THE_CLUSTER
from ottla.broker.requests.call import Call
from ottla.broker.requests.partition_description import describe_partition
from ottla.broker.requests.services import Services
from ottla.errors import ErrorCode, PeerError
from ottla.metadata import records
from ottla.metadata.image import Image
from ottla.metadata.topic_names import is_internal, missing_topic_code
from ottla.protocol.codec import encode_bytes
from ottla.protocol.exchange import Encoded
from ottla.protocol.messages.metadata import (
    Broker,
    MetadataRequest,
    MetadataResponse,
    Partition,
    RequestedTopic,
    Topic,
)
from ottla.protocol.primitives import OPERATIONS_NOT_ASKED_FOR, ZERO_UUID, Uuid
from ottla.settings.table.replicas import AUTO_CREATE_TOPICS_ENABLE

_IDS_SINCE = 12


class _Wanted(NamedTuple):
    """What a request asks for: topics by name, topics by id."""

    names: tuple[str, ...]
    ids: tuple[Uuid, ...]


def handle(request: MetadataRequest, call: Call) -> MetadataResponse | Encoded:
    """Brokers and topics as this client can reach them; encoded once for all who ask the same."""
    services = call.services
    brokers = present_brokers(call)
    wanted = _wanted(request, call.version)
    # With the image: all that an answer depends on.
    key = (
        call.version,
        tuple(brokers),
        wanted,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )
    found = services.metadata_answers.get(services.image.n, key)
    if found is not None:
        return found
    response = _answer(request, call, brokers, wanted)
    if any(topic.error_code for topic in response.topics):
        # What is missing may have to be made.
        if request.allow_auto_topic_creation and services.settings[AUTO_CREATE_TOPICS_ENABLE]:
            _create_missing(services, response.topics)
        return response
    encoded = Encoded(encode_bytes(response, call.version))
    services.metadata_answers.keep(key, encoded)
    return encoded


def _answer(
    request: MetadataRequest, call: Call, brokers: Sequence[BrokerAddress], wanted: _Wanted | None
) -> MetadataResponse:
    services = call.services
    topic_operations = cluster_operations = OPERATIONS_NOT_ASKED_FOR
    if request.include_topic_authorized_operations:
        topic_operations = ALL_OF_A_TOPIC
    if request.include_cluster_authorized_operations:
        cluster_operations = ALL_OF_THE_CLUSTER
    if wanted is None:
        wanted = _Wanted(tuple(sorted(services.image.topic_names)), ())
    present = frozenset(broker.broker_id for broker in brokers)
    return MetadataResponse(
        brokers=tuple(
            Broker(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in brokers
        ),
        cluster_id=services.cluster_id,
        controller_id=services.node_id,
        topics=tuple(_topics(services.image, wanted, present, topic_operations)),
        cluster_authorized_operations=cluster_operations,
    )


# --- what is asked for ------------------------------------------------------------------------


def _wanted(request: MetadataRequest, version: int) -> _Wanted | None:
    """Each topic once; None for all there are. The oldest clients name none when they mean all."""
    if request.topics is None or (version == 0 and not request.topics):
        return None
    for topic in request.topics:
        _check_asked(topic, version)
    return _Wanted(
        tuple(dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)),
        tuple(
            dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != ZERO_UUID)
        ),
    )


def _check_asked(topic: RequestedTopic, version: int) -> None:
    """By name or by id; ids came into the request before anybody could ask by them."""
    if version < _IDS_SINCE and (topic.name is None or topic.topic_id != ZERO_UUID):
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"Topics are asked for by id from version {_IDS_SINCE} on."
        )
    if topic.name is None and topic.topic_id == ZERO_UUID:
        raise PeerError(ErrorCode.INVALID_REQUEST, "A topic with neither a name nor an id.")


# --- what is answered -------------------------------------------------------------------------


def _topics(
    image: Image, wanted: _Wanted, present: Collection[int], operations: int
) -> Iterator[Topic]:
    """In Kafka's order: ids that nobody knows, what is there, names that nobody has."""
    found = []
    missing = []
    for topic_id in wanted.ids:
        topic = image.topic_by_id(topic_id)
        if topic is None:
            yield Topic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=()
            )
        else:
            found.append(topic)
    for name in wanted.names:
        topic = image.topic(name)
        if topic is None:
            missing.append(name)
        elif topic.topic_id not in wanted.ids:
            found.append(topic)
    for topic in found:
        yield Topic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=is_internal(topic.name),
            partitions=tuple(
                _partition(partition, present) for partition in image.partitions(topic.topic_id)
            ),
            topic_authorized_operations=operations,
        )
    for name in missing:
        yield Topic(
            error_code=missing_topic_code(name),
            name=name,
            is_internal=is_internal(name),
            partitions=(),
            topic_authorized_operations=operations,
        )


def _partition(partition: records.Partition, present: Collection[int]) -> Partition:
    error_code, leader_id, in_sync, offline = describe_partition(partition, present)
    return Partition(
        error_code=error_code,
        partition_index=partition.index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=in_sync,
        offline_replicas=offline,
    )


# --- what is made -----------------------------------------------------------------------------


def _create_missing(services: Services, topics: Iterable[Topic]) -> None:
    """Begins to make the topics that could be there. Internal ones are their coordinators'."""
    names = (
        topic.name
        for topic in topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        and topic.name is not None
        and not topic.is_internal
    )
    services.auto_creation.begin(names, services)
