"""Observations of groups by their members."""

from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.support.broker.group_requests import find
from tests.support.broker.observations import TOPIC, World

GROUP = "readers"


async def are_partitions_shared_out_at_once(world: World) -> bool:
    """Whether a second member's join changes the first member's target assignment at once."""
    await find(world.client, GROUP)

    async def beat(member_id: str, epoch: int) -> int:
        joins = epoch == 0
        answer = await world.client.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=5_000 if joins else -1,
                subscribed_topic_names=(TOPIC,) if joins else None,
                topic_partitions=() if joins else None,
            )
        )
        assert not answer.error_code, answer
        return -1 if answer.assignment is None else len(answer.assignment.topic_partitions)

    await beat("first", 0)
    await beat("second", 0)
    return await beat("first", 2) >= 0
