"""ConsumerGroupHeartbeat (68) v0-1. v1 adds regular expressions and member ids that members choose.
The first member of the consumer protocol converts a group of classic consumers. Gaps: none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import cast

from ottla.broker.node.group_coordinator import consumer_rules
from ottla.broker.requests.authorization import group_resource, topic_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group.consumer.entry import take_arrival, take_heartbeat
from ottla.coordinators.group.consumer.regex import match_topics
from ottla.coordinators.group.consumer.requests import Heartbeat, SpecialEpoch, check_heartbeat
from ottla.coordinators.group.consumer.topics import ImageTopics
from ottla.coordinators.group.coordinator import GroupShard
from ottla.coordinators.group.decision import Decision
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.primitives import Uuid

# Members of an application that starts come within milliseconds of each other. Who joins waits
# until no other has come for so long, but not for ever: one target for all of them spares each the
# partitions that the next would take away again.
GATHERING_S = 0.01
GATHERINGS_MAX = 10


def handle(
    request: ConsumerGroupHeartbeatRequest, call: Call
) -> Awaitable[ConsumerGroupHeartbeatResponse]:
    """Where the member stands once its group has taken what it says."""
    call.require(group_resource(request.group_id))
    for name in request.subscribed_topic_names or ():
        call.require(topic_resource(name))
    services = call.services
    rules = consumer_rules(request.group_id, services.settings, services.image)
    check_heartbeat(request, call.version, rules.assignors)
    member_id = request.member_id or str(Uuid(services.entropy.token(16)))
    shard = services.coordinators.groups.of(request.group_id)

    def beat(ticket: Hashable, now_ms: int) -> Heartbeat:
        return Heartbeat(
            request=request,
            member_id=member_id,
            client_id=call.session.client_id or "",
            client_host=f"/{call.session.peer_host}",
            ticket=ticket,
            now_ms=now_ms,
            topics=ImageTopics(services.image),
            match_topics=match_topics,
        )

    def decide(ticket: Hashable, now_ms: int) -> Decision:
        return take_heartbeat(shard.machine, rules, beat(ticket, now_ms))

    if request.member_epoch != SpecialEpoch.JOIN:
        return cast(Awaitable[ConsumerGroupHeartbeatResponse], shard.ask(decide))
    shard.apply(lambda now_ms: take_arrival(shard.machine, rules, beat(None, now_ms)))
    return _gathered(shard, request.group_id, decide)


async def _gathered(
    shard: GroupShard, group_id: str, decide: Callable[[Hashable, int], Decision]
) -> ConsumerGroupHeartbeatResponse:
    """The answer to one who joins, decided once nobody else seems to be coming."""
    for _ in range(GATHERINGS_MAX):
        before = _size(shard, group_id)
        await asyncio.sleep(GATHERING_S)
        if _size(shard, group_id) <= before:
            break
    return cast(ConsumerGroupHeartbeatResponse, await shard.ask(decide))


def _size(shard: GroupShard, group_id: str) -> int:
    group = shard.machine.groups.get(group_id)
    return 0 if group is None else group.member_count
