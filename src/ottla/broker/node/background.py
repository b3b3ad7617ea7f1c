"""Starts the background tasks of a node. Defines those that only measure."""

import asyncio

from ottla.broker.net.connections import Connections
from ottla.broker.node.context import NodeContext
from ottla.broker.node.group_gauges import run_group_gauges
from ottla.broker.node.parts import Parts
from ottla.broker.node.transaction_gauges import run_transaction_gauges
from ottla.settings.table import node

IDLE_CHECK_S = 1.0
STALL_CHECK_S = 0.05


def start_background(context: NodeContext, parts: Parts) -> None:
    """Starts the tasks that run until the node stops."""
    spawn = context.tasks.spawn
    spawn(parts.groups.run(), "groups")
    spawn(parts.transactions.run(), "transactions")
    spawn(parts.tick.disks.run(), "disks")
    spawn(parts.tick.run(), "tick")
    spawn(parts.cleaner.run(), "cleaner")
    log_moves = parts.services.partitions.log_moves
    log_moves.resume()
    spawn(log_moves.run(), "log moves")
    spawn(_refresh_connection_gauges(context, parts.connections), "connections")
    spawn(_measure_loop_delay(context), "loop")
    spawn(parts.gauges.run(), "gauges")
    spawn(
        run_group_gauges(parts.groups.shards, context.metrics.groups, context.seams.clock),
        "group gauges",
    )
    spawn(
        run_transaction_gauges(
            parts.transactions, context.metrics.transactions, context.seams.clock
        ),
        "transaction gauges",
    )


async def _refresh_connection_gauges(context: NodeContext, connections: Connections) -> None:
    meter = context.metrics.broker
    while True:
        await asyncio.sleep(IDLE_CHECK_S)
        connections.end_idle()
        meter.queued_request_bytes = connections.held_bytes
        meter.unsent_reply_bytes = connections.unsent_bytes


async def _measure_loop_delay(context: NodeContext) -> None:
    """Measures the delay of due work on the event loop: the length of its longest step."""
    clock = context.seams.clock
    warn_s = context.settings[node.LOOP_STALL_WARN_MS] / 1000
    while True:
        due_ns = clock.steady_ns() + int(STALL_CHECK_S * 1e9)
        await asyncio.sleep(STALL_CHECK_S)
        late_s = max(0.0, (clock.steady_ns() - due_ns) / 1e9)
        context.metrics.loop.observe(late_s)
        if late_s > warn_s:
            context.logger.warning("loop stalled", seconds=round(late_s, 3))
