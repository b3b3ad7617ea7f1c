"""AlterClientQuotas (49) v0-1. Each entry is changed or refused by itself. Gaps: only
`producer_byte_rate` and `consumer_byte_rate` of users and client ids; what is not enforced is
refused.
"""

from collections.abc import Sequence

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.quota_changes import QuotaChange, alter_quotas, quota_entity
from ottla.metadata.image import Image
from ottla.metadata.records import Quota, Record
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    Entry,
    EntryResult,
)


async def handle(request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse:
    call.require(CLUSTER)
    records: list[Quota] = []
    results: list[EntryResult] = []
    for entry in request.entries:
        code, message = ErrorCode.NONE, None
        try:
            records += _records(entry)
        except PeerError as error:
            code, message = error.code, str(error)
            call.count_refusal(code)
        results.append(EntryResult(error_code=code, error_message=message, entity=entry.entity))
    if records and not request.validate_only:

        def decide(_image: Image) -> tuple[Sequence[Record], None]:
            return records, None

        await call.services.controller.commit(decide)
    return AlterClientQuotasResponse(entries=tuple(results))


def _records(entry: Entry) -> list[Quota]:
    entity = quota_entity((part.entity_type, part.entity_name) for part in entry.entity)
    changes = (QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops)
    return alter_quotas(entity, changes)
