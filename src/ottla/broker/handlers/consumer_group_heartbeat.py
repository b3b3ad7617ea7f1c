"""ConsumerGroupHeartbeat (68) v0-1. v1 adds regular expressions, and members name themselves.
Gaps: a group of the classic protocol is converted only when it is empty.
"""

from collections.abc import Awaitable, Hashable
from typing import cast

from ottla.broker.call import Call
from ottla.coordinators.decision import Decision
from ottla.coordinators.group.consumer.entry import take_heartbeat
from ottla.coordinators.group.consumer.regex import match_topics
from ottla.coordinators.group.consumer.requests import Heartbeat, check_heartbeat
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.topics import ImageTopics
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.primitives import Uuid


def handle(
    request: ConsumerGroupHeartbeatRequest, call: Call
) -> Awaitable[ConsumerGroupHeartbeatResponse]:
    """Where the member stands once its group has taken what it says."""
    services = call.services
    rules = ConsumerRules.of(services.settings)
    check_heartbeat(request, call.version, rules.assignors)
    member_id = request.member_id or str(Uuid(services.entropy.token(16)))
    shard = services.shards.of(request.group_id)

    def decide(ticket: Hashable, now_ms: int) -> Decision:
        beat = Heartbeat(
            request=request,
            member_id=member_id,
            client_id=call.client_id or "",
            client_host=f"/{call.connection.peer_host}",
            ticket=ticket,
            now_ms=now_ms,
            topics=ImageTopics(services.image),
            match_topics=match_topics,
        )
        return take_heartbeat(shard.state, rules, beat)

    return cast(Awaitable[ConsumerGroupHeartbeatResponse], shard.ask(decide))
