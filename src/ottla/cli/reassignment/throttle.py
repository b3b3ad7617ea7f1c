"""The throttle of a reassignment (KIP-73): set before it begins, restored after it has ended."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.cli.reassignment.plan import Move
from ottla.cli.shared.output import say
from ottla.client.admin.cluster import Admin
from ottla.client.admin.config_changes import change_configs
from ottla.client.errors import ClientError, Refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.config_resource import ResourceType

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

RATES = (LEADER_RATE, FOLLOWER_RATE)
REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
_OWN_SOURCES = {ResourceType.TOPIC: 1, ResourceType.BROKER: 2}
# What a topic that is gone answers.
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Throttled(NamedTuple):
    """A topic or a broker with throttle settings, and their values; None if they are not set."""

    resource: ResourceType
    name: str
    values: Mapping[str, str | None]


def throttle_of(
    moves: Iterable[Move], live: Iterable[int], rate_bytes_per_s: int
) -> list[Throttled]:
    """The settings for these moves: of the topics, and of the brokers that copy."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for move in moves:
        if not move.adding:
            continue
        topic, partition = move.name
        leaders.setdefault(topic, []).extend(f"{partition}:{each}" for each in move.before)
        followers.setdefault(topic, []).extend(f"{partition}:{each}" for each in move.adding)
        brokers.update((*move.before, *move.adding))
    rate = str(rate_bytes_per_s)
    return [
        *(
            Throttled(
                ResourceType.TOPIC,
                topic,
                {LEADER_REPLICAS: ",".join(leaders[topic]), FOLLOWER_REPLICAS: ",".join(each)},
            )
            for topic, each in followers.items()
        ),
        *(
            Throttled(ResourceType.BROKER, str(each), dict.fromkeys(RATES, rate))
            for each in sorted(brokers & set(live))
        ),
    ]


async def set_throttle(router: Router, throttle: Sequence[Throttled]) -> list[Throttled]:
    """Sets them, and returns the values before. Sets none if one is refused."""
    before: list[Throttled] = []
    try:
        for each in throttle:
            values = await _own_values(router, each.resource, each.name, each.values)
            before.append(Throttled(each.resource, each.name, values))
            await change_configs(router, each.resource, each.name, each.values)
    except ClientError:
        await restore_throttle(router, before)
        raise
    return before


async def restore_throttle(router: Router, before: Iterable[Throttled]) -> None:
    """Restores all that can be; names the others."""
    for resource, name, values in before:
        try:
            await change_configs(router, resource, name, values)
        except ClientError as error:
            if isinstance(error, Refused) and error.code in _GONE:
                continue
            kind = resource.name.lower()
            say(f"warning: the throttle of {kind} {name} is still set: {error}")


async def find_throttles(
    router: Router, topics: Iterable[str], brokers: Iterable[int]
) -> list[Throttled]:
    """The topics and brokers with throttle settings of their own, as removals."""
    asked = [
        *((ResourceType.TOPIC, each, REPLICAS) for each in topics),
        *((ResourceType.BROKER, str(each), RATES) for each in brokers),
    ]
    found = []
    for resource, name, configs in asked:
        try:
            values = await _own_values(router, resource, name, configs)
        except ClientError:
            # A topic that is gone, or a broker that is down, throttles nothing now.
            continue
        removed = {config: None for config, value in values.items() if value}
        if removed:
            found.append(Throttled(resource, name, removed))
    return found


async def _own_values(
    router: Router, resource: ResourceType, name: str, configs: Iterable[str]
) -> dict[str, str | None]:
    """The values that the topic or broker has by itself, not by default."""
    source = _OWN_SOURCES[resource]
    present = {
        each.name: each.value
        for each in await Admin(router).describe_configs(resource, name)
        if each.source == source
    }
    return {config: present.get(config) for config in configs}
