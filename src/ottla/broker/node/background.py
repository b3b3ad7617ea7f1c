"""The background tasks of a node, and those of them that only watch."""

import asyncio

from ottla.broker.net.connections import Connections
from ottla.broker.node.context import NodeContext
from ottla.broker.node.group_gauges import watch_groups
from ottla.broker.node.parts import Parts
from ottla.settings.table import node

IDLE_CHECK_S = 1.0
STALL_CHECK_S = 0.05


def start_background(context: NodeContext, parts: Parts) -> None:
    """Starts all that runs from the start to the stop besides connections."""
    spawn = context.tasks.spawn
    spawn(parts.groups.run(), "groups")
    spawn(parts.tick.disks.run(), "disks")
    spawn(parts.tick.run(), "tick")
    spawn(parts.cleaner.run(), "cleaner")
    spawn(_watch_connections(context, parts.connections), "connections")
    spawn(_watch_loop(context), "loop")
    spawn(parts.gauges.run(), "gauges")
    spawn(
        watch_groups(parts.groups.shards, context.metrics.groups, context.seams.clock),
        "group gauges",
    )


async def _watch_connections(context: NodeContext, connections: Connections) -> None:
    meter = context.metrics.broker
    while True:
        await asyncio.sleep(IDLE_CHECK_S)
        connections.end_silent()
        meter.queued_request_bytes = connections.held_bytes
        meter.unsent_reply_bytes = connections.unsent_bytes


async def _watch_loop(context: NodeContext) -> None:
    """Measures how late the loop runs due work, which is as long as its longest step."""
    clock = context.seams.clock
    warn_s = context.settings[node.LOOP_STALL_WARN_MS] / 1000
    while True:
        due_ns = clock.steady_ns() + int(STALL_CHECK_S * 1e9)
        await asyncio.sleep(STALL_CHECK_S)
        late_s = max(0.0, (clock.steady_ns() - due_ns) / 1e9)
        context.metrics.loop.observe(late_s)
        if late_s > warn_s:
            context.logger.warning("loop stalled", seconds=round(late_s, 3))
