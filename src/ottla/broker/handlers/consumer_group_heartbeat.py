"""ConsumerGroupHeartbeat (68) v0-1. v1 adds regular expressions, and members name themselves. A
group of classic consumers becomes one of the consumer protocol with the first. Gaps: none.
"""

from collections.abc import Awaitable, Hashable
from typing import cast

from ottla.broker.node.group_coordinator import consumer_rules
from ottla.broker.requests.call import Call
from ottla.coordinators.group.consumer.entry import take_heartbeat, take_join
from ottla.coordinators.group.consumer.regex import match_topics
from ottla.coordinators.group.consumer.requests import Heartbeat, SpecialEpoch, check_heartbeat
from ottla.coordinators.group.consumer.topics import ImageTopics
from ottla.coordinators.group.decision import Decision
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
    rules = consumer_rules(request.group_id, services.settings, services.image)
    check_heartbeat(request, call.version, rules.assignors)
    member_id = request.member_id or str(Uuid(services.entropy.token(16)))
    shard = services.shards.of(request.group_id)
    # A join is answered when the group has decided for all who join together.
    take = take_join if request.member_epoch == SpecialEpoch.JOIN else take_heartbeat

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
        return take(shard.machine, rules, beat)

    return cast(Awaitable[ConsumerGroupHeartbeatResponse], shard.ask(decide))
