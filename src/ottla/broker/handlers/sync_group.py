"""SyncGroup (14) v0-5. The answer is sent when the leader has sent the assignment. v3 adds static
members (KIP-345), v5 sends and checks the protocol (KIP-559). A group of the consumer protocol has
an assignment already and answers at once. Gaps: none.
"""

from collections.abc import Awaitable, Hashable
from typing import cast

from ottla.broker.requests.authorization import group_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group import classic_routing
from ottla.coordinators.group.consumer.topics import ImageTopics
from ottla.coordinators.group.decision import Decision
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_REQUIRED_SINCE = 5


def handle(request: SyncGroupRequest, call: Call) -> Awaitable[SyncGroupResponse]:
    call.require(group_resource(request.group_id))
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= PROTOCOL_REQUIRED_SINCE and not has_protocol:
        raise PeerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol is given")
    if not request.group_id:
        raise PeerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    shard = call.services.coordinators.groups.of(request.group_id)
    topics = ImageTopics(call.services.image)

    def decide(ticket: Hashable, now_ms: int) -> Decision:
        return classic_routing.sync(shard.machine, request, ticket, now_ms, topics)

    return cast(Awaitable[SyncGroupResponse], shard.ask(decide))
