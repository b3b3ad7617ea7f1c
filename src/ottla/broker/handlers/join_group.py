"""JoinGroup (11) v0-9. The answer is sent when the group's next generation begins. v4 asks new
members to join again with an id (KIP-394), v5 adds static members (KIP-345), v9 lets a rejoining
static leader skip its assignment (KIP-814). A group of the consumer protocol accepts classic
members and answers at once. Gaps: none.
"""

from collections.abc import Awaitable, Hashable
from typing import cast

from ottla.broker.node.group_coordinator import consumer_rules
from ottla.broker.requests.authorization import group_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.coordinator_topics import MESSAGE_BYTES_MAX
from ottla.coordinators.group import classic_routing
from ottla.coordinators.group.classic import lookup
from ottla.coordinators.group.classic.join import Joiner, check
from ottla.coordinators.group.classic.responses import join_refused
from ottla.coordinators.group.classic.rules import classic_rules
from ottla.coordinators.group.consumer.member_update import UpdateContext
from ottla.coordinators.group.consumer.regex import match_topics
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.topics import ImageTopics
from ottla.coordinators.group.decision import Decision
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.primitives import Uuid

# Before this version, an empty name stands for no protocol.
NULL_PROTOCOL_SINCE = 7


def handle(request: JoinGroupRequest, call: Call) -> Awaitable[JoinGroupResponse]:
    call.require(group_resource(request.group_id))
    check(request, classic_rules(call.services.settings, MESSAGE_BYTES_MAX))
    group_id, services = request.group_id, call.services
    shard = services.coordinators.groups.of(group_id)
    known = lookup.find(shard.machine, group_id)
    joiner = _joiner(request, call, is_classic=known is not None)

    def consumers(now_ms: int) -> tuple[ConsumerRules, UpdateContext]:
        rules = consumer_rules(group_id, services.settings, services.image)
        return rules, UpdateContext(now_ms, ImageTopics(services.image), match_topics)

    def decide(ticket: Hashable, now_ms: int) -> Decision:
        return classic_routing.join(shard.machine, request, joiner, ticket, now_ms, consumers)

    if not request.member_id and known is None:
        shard.apply(lambda now_ms: lookup.open_to_join(shard.machine, group_id, now_ms))
    return cast(Awaitable[JoinGroupResponse], shard.ask(decide))


def in_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    if version < NULL_PROTOCOL_SINCE and response.protocol_name is None:
        return join_refused(response.error_code, response.member_id, protocol_name="")
    return response


def _joiner(request: JoinGroupRequest, call: Call, *, is_classic: bool) -> Joiner:
    # The format of addresses in Kafka.
    client_id, host = call.session.client_id or "", f"/{call.session.peer_host}"
    if request.member_id:
        return Joiner(call.version, client_id, host)
    token = call.services.entropy.token(16)
    consumer_member_id = "" if is_classic else str(Uuid(token))
    return Joiner(call.version, client_id, host, _uuid4(token.hex()), consumer_member_id)


def _uuid4(digits: str) -> str:
    """A version 4 UUID as `uuid.UUID` prints it, but much faster."""
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
