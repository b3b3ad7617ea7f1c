"""Metadata (3) v0-13. A missing topic is created if that is allowed, and exists when the client
asks again. Gaps: none.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ottla.broker.requests.advertised_addresses import BrokerAddress, present_brokers
from ottla.broker.requests.authorization import CLUSTER, Resource, may, topic_resource, visibility
from ottla.broker.requests.call import Call
from ottla.broker.requests.partition_description import (
    OfflineLogs,
    describe_partition,
    offline_logs,
)
from ottla.errors import ErrorCode, PeerError
from ottla.metadata import records
from ottla.metadata.topic_names import is_internal, missing_topic_code
from ottla.metadata.values import AclOperation
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


class _RequestedTopics(NamedTuple):
    """The topics that a request names, and those that it gives by id."""

    names: tuple[str, ...]
    ids: tuple[Uuid, ...]


def handle(request: MetadataRequest, call: Call) -> MetadataResponse | Encoded:
    """Brokers and topics for this client's listener. The response is cached per image."""
    services = call.services
    brokers = present_brokers(call)
    wanted = _requested_topics(request, call.version)
    # All that a response depends on besides the image. The brokers stand for the listener.
    key = (
        call.version,
        tuple(brokers),
        visibility(services, call.session),
        wanted,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )
    found = services.metadata.response_cache.get(services.image.offset, key)
    if found is not None:
        return found
    response = _answer(request, call, brokers, wanted)
    if any(topic.error_code for topic in response.topics):
        # Not cached: missing topics may have to be created.
        if request.allow_auto_topic_creation and services.settings[AUTO_CREATE_TOPICS_ENABLE]:
            return _create_missing(response, call)
        return response
    encoded = Encoded(encode_bytes(response, call.version))
    services.metadata.response_cache.put(key, encoded)
    return encoded


def _answer(
    request: MetadataRequest,
    call: Call,
    brokers: Sequence[BrokerAddress],
    wanted: _RequestedTopics | None,
) -> MetadataResponse:
    services = call.services
    cluster_operations = OPERATIONS_NOT_ASKED_FOR
    if request.include_cluster_authorized_operations:
        is_described = may(services, call.session, AclOperation.DESCRIBE, CLUSTER)
        cluster_operations = call.authorized_operations(CLUSTER) if is_described else 0
    if wanted is None:
        names = sorted(services.image.topic_names)
        wanted = _RequestedTopics(
            tuple(name for name in names if call.may(topic_resource(name))), ()
        )
    present = frozenset(broker.broker_id for broker in brokers)
    return MetadataResponse(
        brokers=tuple(
            Broker(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in brokers
        ),
        cluster_id=services.identity.cluster_id,
        controller_id=services.controller_id,
        topics=tuple(_topics(call, wanted, present, request.include_topic_authorized_operations)),
        cluster_authorized_operations=cluster_operations,
    )


# --- request ----------------------------------------------------------------------------------


def _requested_topics(request: MetadataRequest, version: int) -> _RequestedTopics | None:
    """Each topic once; None for all topics, which v0 requests by an empty list."""
    if request.topics is None or (version == 0 and not request.topics):
        return None
    for topic in request.topics:
        _check_asked(topic, version)
    return _RequestedTopics(
        tuple(dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)),
        tuple(
            dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != ZERO_UUID)
        ),
    )


def _check_asked(topic: RequestedTopic, version: int) -> None:
    """PeerError unless the topic has a name or an id. v10 and v11 must not use the id."""
    if version < _IDS_SINCE and (topic.name is None or topic.topic_id != ZERO_UUID):
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"Topics are asked for by id from version {_IDS_SINCE} on."
        )
    if topic.name is None and topic.topic_id == ZERO_UUID:
        raise PeerError(ErrorCode.INVALID_REQUEST, "A topic with neither a name nor an id.")


# --- response ---------------------------------------------------------------------------------


def _topics(
    call: Call, wanted: _RequestedTopics, present: Collection[int], include_operations: bool
) -> Iterator[Topic]:
    """Topics in Kafka's order: unknown ids, existing topics, unknown names, unauthorized topics.

    For a name without authorization, the result is the same whether the topic exists or not.
    """
    image = call.services.image
    offline_at = offline_logs(image.brokers.values())
    found, missing, hidden = [], [], []
    for topic_id in wanted.ids:
        topic = image.topic_by_id(topic_id)
        if topic is None:
            yield _refused(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        elif call.may(topic_resource(topic.name)):
            found.append(topic)
        else:
            hidden.append(_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id))
    for name in wanted.names:
        topic = image.topic(name)
        if not call.may(topic_resource(name)):
            hidden.append(_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
        elif topic is None:
            missing.append(name)
        elif topic.topic_id not in wanted.ids:
            found.append(topic)

    def operations(name: str) -> int:
        if not include_operations:
            return OPERATIONS_NOT_ASKED_FOR
        return call.authorized_operations(topic_resource(name))

    for topic in found:
        yield Topic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=is_internal(topic.name),
            partitions=tuple(
                _partition(each, present, offline_at) for each in image.partitions(topic.topic_id)
            ),
            topic_authorized_operations=operations(topic.name),
        )
    for name in missing:
        yield Topic(
            error_code=missing_topic_code(name),
            name=name,
            is_internal=is_internal(name),
            partitions=(),
            topic_authorized_operations=operations(name),
        )
    yield from hidden


def _refused(code: ErrorCode, name: str | None, topic_id: Uuid = ZERO_UUID) -> Topic:
    return Topic(error_code=code, name=name, topic_id=topic_id, partitions=())


def _partition(
    partition: records.Partition, present: Collection[int], offline_at: OfflineLogs
) -> Partition:
    error_code, leader_id, in_sync, offline = describe_partition(partition, present, offline_at)
    return Partition(
        error_code=error_code,
        partition_index=partition.index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=in_sync,
        offline_replicas=offline,
    )


# --- topic creation ---------------------------------------------------------------------------


def _create_missing(response: MetadataResponse, call: Call) -> MetadataResponse:
    """Starts the creation of missing topics. Internal topics are created by their coordinators.

    Topics that the client may not create are refused in the response.
    """
    services = call.services
    names = [
        topic.name
        for topic in response.topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        and topic.name is not None
        and not topic.is_internal
    ]
    if services.authorizer is None or _may_create(CLUSTER, call):
        services.metadata.auto_topic_creation.begin(names, services)
        return response
    refused = {name for name in names if not _may_create(topic_resource(name), call)}
    services.metadata.auto_topic_creation.begin(
        (name for name in names if name not in refused), services
    )
    return MetadataResponse(
        brokers=response.brokers,
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        topics=tuple(
            _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic.name)
            if topic.name in refused
            else topic
            for topic in response.topics
        ),
        cluster_authorized_operations=response.cluster_authorized_operations,
    )


def _may_create(resource: Resource, call: Call) -> bool:
    return may(call.services, call.session, AclOperation.CREATE, resource)
