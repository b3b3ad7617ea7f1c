"""The topics of the coordinators, each created on the first request for its coordinator."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ottla.broker.inter_broker.controller_channel import ControllerIsHere
from ottla.broker.requests import metadata_changes
from ottla.broker.requests.services import Services
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.internal_topics import (
    InternalTopic,
    create_internal_topic,
)
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.controller.topic_changes import CreatedTopic
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from ottla.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.messages.create_topics import Config, Topic
from ottla.settings.broker import BrokerSettings
from ottla.settings.table import groups, records, replicas, retention, segments, transactions

# The generation of a large group, or a transaction with many partitions, is one record, which must
# fit.
MESSAGE_BYTES_MAX = 16 << 20
# The time in which this broker learns of a topic that the controller has created.
KNOWN_S_MAX = 5.0


def offsets_topic(settings: BrokerSettings) -> InternalTopic:
    """`__consumer_offsets`, with the broker's settings for it."""
    return InternalTopic(
        CONSUMER_OFFSETS,
        settings[groups.OFFSETS_TOPIC_NUM_PARTITIONS],
        settings[groups.OFFSETS_TOPIC_REPLICATION_FACTOR],
        _configs(settings[groups.OFFSETS_TOPIC_SEGMENT_BYTES]),
    )


def transaction_topic(settings: BrokerSettings) -> InternalTopic:
    """`__transaction_state`, with the broker's settings for it."""
    min_isr = settings[transactions.TRANSACTION_STATE_LOG_MIN_ISR]
    return InternalTopic(
        TRANSACTION_STATE,
        settings[transactions.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
        settings[transactions.TRANSACTION_STATE_LOG_REPLICATION_FACTOR],
        {
            **_configs(settings[transactions.TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
            replicas.MIN_INSYNC_REPLICAS.name: str(min_isr),
        },
    )


def _configs(segment_bytes: int) -> Mapping[str, str]:
    return {
        retention.CLEANUP_POLICY.name: "compact",
        records.COMPRESSION_TYPE.name: "producer",
        records.MAX_MESSAGE_BYTES.name: str(MESSAGE_BYTES_MAX),
        segments.SEGMENT_BYTES.name: str(segment_bytes),
    }


async def create_coordinator_topic(services: Services, topic: InternalTopic) -> None:
    """Creates the topic if it is missing, here or on the controller.

    PeerError COORDINATOR_NOT_AVAILABLE if that fails, also while too few brokers are up.
    """
    if not services.identity.has_peers:
        # There will never be more brokers than this one.
        topic = topic._replace(replication_factor=1)
    try:
        try:
            await _create_remotely(services, topic)
        except ControllerIsHere:
            await _create_locally(services, topic)
    except PeerError as error:
        # Another request may have created it at the same time.
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            services.logger.warning("topic not created", topic=topic.name, error=str(error))
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error


async def _create_locally(services: Services, topic: InternalTopic) -> None:
    topic_id = metadata_changes.new_topic_id(services.entropy)
    start = metadata_changes.placement_start(services.entropy)

    def decide(image: Image) -> tuple[Sequence[Record], CreatedTopic]:
        return create_internal_topic(
            PendingTopics(image), topic, services.settings, topic_id, start
        )

    await services.controller.commit(decide)


async def _create_remotely(services: Services, topic: InternalTopic) -> None:
    """PeerError if the controller refuses it. ControllerIsHere."""
    if services.inter_broker is None:
        raise ControllerIsHere
    wanted = Topic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=(),
        configs=tuple(Config(name=key, value=value) for key, value in topic.configs.items()),
    )
    for outcome in await services.inter_broker.own_requests.create_topics([wanted]):
        if outcome.code is not ErrorCode.NONE:
            raise PeerError(outcome.code, outcome.message or "")
    # The client is told next who leads the topic's partitions.
    await _until_known(services, topic.name)


async def _until_known(services: Services, name: str) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(KNOWN_S_MAX):
            await services.metadata.publisher.until(lambda image: image.topic(name) is not None)
