"""`__consumer_offsets`: created on the first request for a group's coordinator."""

from collections.abc import Sequence

from ottla.broker.requests import metadata_changes
from ottla.broker.requests.services import Services
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.internal_topics import InternalTopic, create_internal_topic
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.controller.topic_changes import CreatedTopic
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.settings.broker import BrokerSettings
from ottla.settings.table import groups, records, retention, segments

# The generation of a large group is one record, which must fit.
MESSAGE_BYTES_MAX = 16 << 20


def offsets_topic(settings: BrokerSettings) -> InternalTopic:
    """The topic to create: compacted, with the broker's settings for it."""
    return InternalTopic(
        CONSUMER_OFFSETS,
        settings[groups.OFFSETS_TOPIC_NUM_PARTITIONS],
        settings[groups.OFFSETS_TOPIC_REPLICATION_FACTOR],
        {
            retention.CLEANUP_POLICY.name: "compact",
            records.COMPRESSION_TYPE.name: "producer",
            records.MAX_MESSAGE_BYTES.name: str(MESSAGE_BYTES_MAX),
            segments.SEGMENT_BYTES.name: str(settings[groups.OFFSETS_TOPIC_SEGMENT_BYTES]),
        },
    )


async def create_offsets_topic(services: Services) -> None:
    """Creates the topic if it is missing. PeerError COORDINATOR_NOT_AVAILABLE if that fails."""
    topic_id = metadata_changes.new_topic_id(services.entropy)
    start = metadata_changes.placement_start(services.entropy)

    def decide(image: Image) -> tuple[Sequence[Record], CreatedTopic]:
        topic = offsets_topic(services.settings)
        return create_internal_topic(
            PendingTopics(image), topic, services.settings, topic_id, start
        )

    try:
        await services.controller.commit(decide)
    except PeerError as error:
        # Another request may have created it at the same time.
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            services.logger.warning("topic not created", topic=CONSUMER_OFFSETS, error=str(error))
            raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
