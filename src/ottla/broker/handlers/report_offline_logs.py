"""ReportOfflineLogs (20000) v0-0. The controller takes a broker's offline logs out of the ISRs.
Only on the inter-broker listener. Gaps: none.
"""

from collections.abc import Sequence

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode
from ottla.metadata.controller.entry_packing import in_entries
from ottla.metadata.controller.offline_logs import logs_offline
from ottla.metadata.controller.requesting_broker import require_current
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from ottla.metadata.values import Incarnation, PartitionId
from ottla.protocol.messages.report_offline_logs import (
    ReportOfflineLogsRequest,
    ReportOfflineLogsResponse,
)


async def handle(request: ReportOfflineLogsRequest, call: Call) -> ReportOfflineLogsResponse:
    """Answered when all partitions are changed. A repeated report changes nothing."""
    call.require(CLUSTER)
    requester = Incarnation(request.broker_id, request.broker_epoch)
    offline = [
        PartitionId(topic.topic_id, index)
        for topic in request.topics
        for index in topic.partition_indexes
    ]
    for portion in in_entries(offline):

        def decide(
            image: Image, portion: Sequence[PartitionId] = portion
        ) -> tuple[Sequence[Record], None]:
            require_current(image, requester)
            return logs_offline(image, requester.broker_id, portion), None

        await call.services.controller.commit(decide)
    return ReportOfflineLogsResponse(error_code=ErrorCode.NONE)
