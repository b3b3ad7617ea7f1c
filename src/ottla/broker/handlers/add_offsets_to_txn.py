"""AddOffsetsToTxn (25) v0-4. Adds the group's partition of `__consumer_offsets` to a transaction.
Gaps: none.
"""

from ottla.broker.requests.authorization import group_resource, transactional_id_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.coordinator_topics import create_coordinator_topic, offsets_topic
from ottla.broker.requests.fenced_producers import in_older_words
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition

FENCED_SINCE = 2
# The transaction version of clients that add offsets themselves.
CLIENT_VERSION = 0


async def handle(request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    from ottla.coordinators.txn.machine import AddRequest

    transactional_id = request.transactional_id
    call.require(transactional_id_resource(transactional_id))
    call.require(group_resource(request.group_id))
    if not transactional_id:
        raise PeerError(ErrorCode.INVALID_REQUEST, "an empty transactional id")
    services = call.services
    if services.image.topic(CONSUMER_OFFSETS) is None:
        await create_coordinator_topic(services, offsets_topic(services.settings))
    index = services.coordinators.groups.partition_of(request.group_id)
    asked = AddRequest(
        transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        frozenset({TopicPartition(CONSUMER_OFFSETS, index)}),
        CLIENT_VERSION,
    )
    try:
        shard = services.coordinators.transactions.of(transactional_id)
        await shard.ask(lambda ticket, now_ms: shard.machine.add_partitions(asked, ticket, now_ms))
    except PeerError as error:
        raise in_older_words(error, call.version, FENCED_SINCE) from None
    return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)
