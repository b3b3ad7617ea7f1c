"""ConsumerGroupHeartbeat (68) v0-1. v1 adds regular expressions and member ids that members choose.
The first member of the consumer protocol converts a group of classic consumers. Gaps: none.
"""

from collections.abc import Awaitable, Hashable
from typing import cast

from ottla.broker.node.group_coordinator import consumer_rules
from ottla.broker.requests.authorization import group_resource, topic_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group.consumer.heartbeat_request import (
    Heartbeat,
    SpecialEpoch,
    check_heartbeat,
)
from ottla.coordinators.group.consumer.regex import match_topics
from ottla.coordinators.group.consumer.routing import handle_heartbeat, handle_join
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
    """The member's epoch and assignment after its heartbeat."""
    call.require(group_resource(request.group_id))
    for name in request.subscribed_topic_names or ():
        call.require(topic_resource(name))
    services = call.services
    rules = consumer_rules(request.group_id, services.settings, services.image)
    check_heartbeat(request, call.version, rules.assignors)
    member_id = request.member_id or str(Uuid(services.entropy.token(16)))
    shard = services.coordinators.groups.of(request.group_id)
    # A join is answered when the group has decided for all members that join together.
    take = handle_join if request.member_epoch == SpecialEpoch.JOIN else handle_heartbeat

    def decide(ticket: Hashable, now_ms: int) -> Decision:
        beat = Heartbeat(
            request=request,
            member_id=member_id,
            client_id=call.session.client_id or "",
            client_host=f"/{call.session.peer_host}",
            ticket=ticket,
            now_ms=now_ms,
            topics=ImageTopics(services.image),
            match_topics=match_topics,
        )
        return take(shard.machine, rules, beat)

    return cast(Awaitable[ConsumerGroupHeartbeatResponse], shard.ask(decide))
