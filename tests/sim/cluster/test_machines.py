"""The machines of a cluster: one can fail in every way while its peers go on."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import patch

import pytest

from ottla.broker.node import node
from ottla.protocol.messages.metadata import MetadataRequest
from tests.sim.broker.witness import Witness
from tests.sim.cluster import sessions
from tests.sim.cluster.cluster import Cluster
from tests.sim.cluster.settings import SECOND_DIRECTORY
from tests.sim.seams.loop import run

Story = Callable[[Cluster], Coroutine[Any, Any, None]]


def with_cluster(story: Story) -> None:
    cluster = Cluster(1, 3, Witness())

    async def tell() -> None:
        serving = asyncio.create_task(cluster.ensemble.run())
        await cluster.start(10)
        await story(cluster)
        cluster.check_faults()
        serving.cancel()
        for machine in cluster.all:
            await machine.stop()

    with patch.object(node, "gc"):
        run(tell(), clock=cluster.all[0].clock)


async def ask(cluster: Cluster, broker_id: int) -> Any:
    """A broker's answer to a Metadata request. OSError or TimeoutError if there is none."""
    host = cluster.machines[broker_id].host
    line = await cluster.connect(cluster.network.host("client"), host)
    try:
        return await line.line.ask(MetadataRequest(topics=()), 12)
    finally:
        line.line.close()


def members(cluster: Cluster) -> list[int]:
    return cluster.ensemble.registered_ids


def test_a_paused_broker_is_silent_and_loses_its_session_while_its_peers_serve() -> None:
    async def story(cluster: Cluster) -> None:
        machine = cluster.machines[2]
        process = machine.pause()
        assert process is not None
        with pytest.raises(TimeoutError):
            await ask(cluster, 2)
        assert [broker.node_id for broker in (await ask(cluster, 1)).brokers] == [1, 3]
        assert members(cluster) == [1, 3]
        machine.resume(process)
        await ask(cluster, 2)
        await asyncio.sleep(sessions.SESSION_TIMEOUT_S)
        assert [broker.node_id for broker in (await ask(cluster, 1)).brokers] == [1, 2, 3]

    with_cluster(story)


def test_a_broker_whose_session_ends_while_it_lives_registers_again() -> None:
    async def story(cluster: Cluster) -> None:
        before = {each.node_id for each in (await ask(cluster, 1)).brokers}
        cluster.ensemble.expire(cluster.machines[2].host)
        await asyncio.sleep(0.02)
        assert members(cluster) == [1, 3]
        await asyncio.sleep(1)
        assert members(cluster) == [1, 2, 3]
        assert {each.node_id for each in (await ask(cluster, 3)).brokers} == before
        assert cluster.machines[2].lives == 1

    with_cluster(story)


def test_a_pause_within_a_pause_ends_with_the_last() -> None:
    async def story(cluster: Cluster) -> None:
        machine = cluster.machines[2]
        process = machine.pause()
        assert machine.pause() is process is not None
        machine.resume(process)
        with pytest.raises(TimeoutError):
            await ask(cluster, 2)
        machine.resume(process)
        await ask(cluster, 2)

    with_cluster(story)


def test_a_killed_controller_is_followed_by_another_after_its_session() -> None:
    async def story(cluster: Cluster) -> None:
        before = (await ask(cluster, 1)).controller_id
        cluster.machines[before].kill()
        others = [broker_id for broker_id in cluster.machines if broker_id != before]
        with pytest.raises(ConnectionRefusedError):
            await ask(cluster, before)
        await asyncio.sleep(sessions.SESSION_TIMEOUT_S / 2)
        assert members(cluster) == [1, 2, 3]
        await asyncio.sleep(sessions.SESSION_TIMEOUT_S)
        assert members(cluster) == others
        assert (await ask(cluster, others[0])).controller_id in others

    with_cluster(story)


@pytest.mark.parametrize("is_outward", [True, False])
def test_a_broker_that_is_cut_off_from_the_ensemble_one_way_loses_its_session(
    is_outward: bool,
) -> None:
    async def story(cluster: Cluster) -> None:
        ways = cluster.machines[3].host, sessions.HOST
        cluster.network.block(*(ways if is_outward else reversed(ways)))
        await asyncio.sleep(2 * sessions.SESSION_TIMEOUT_S)
        assert members(cluster) == [1, 2]
        await ask(cluster, 3)

    with_cluster(story)


def test_a_stalled_disk_stops_its_own_broker_only() -> None:
    async def story(cluster: Cluster) -> None:
        began_ns = cluster.timeline.now_ns
        cluster.machines[1].disk._stall(500)
        assert cluster.timeline.now_ns == began_ns
        await ask(cluster, 2)
        assert cluster.timeline.now_ns - began_ns < 100_000_000
        await ask(cluster, 1)
        assert cluster.timeline.now_ns - began_ns >= 500_000_000

    with_cluster(story)


def test_a_broker_starts_without_its_second_log_directory_and_not_without_its_first() -> None:
    async def story(cluster: Cluster) -> None:
        machine = cluster.machines[2]
        machine.kill()
        machine.switch_on()
        machine.disk_fails()
        machine.failed_directory.path = SECOND_DIRECTORY
        await machine.until_up(10)
        machine.kill()
        machine.switch_on()
        machine.disk_fails()
        machine.failed_directory.path = "/a"
        await asyncio.sleep(5)
        assert not machine.is_alive
        machine.failed_directory.path = None
        await machine.until_up(10)

    with_cluster(story)


def test_machines_have_clocks_of_their_own_on_one_timeline() -> None:
    async def story(cluster: Cluster) -> None:
        clocks = [machine.clock for machine in cluster.all]
        assert len({clock.wall_ms() for clock in clocks}) == 3
        before_ms = [clock.wall_ms() for clock in clocks]
        clocks[0].jump_wall(1_000)
        await asyncio.sleep(1)
        passed_ms = [clock.wall_ms() - ms for clock, ms in zip(clocks, before_ms, strict=True)]
        assert passed_ms == [2_000, 1_000, 1_000]

    with_cluster(story)


def test_a_disk_fault_that_has_not_struck_counts_for_the_next_life() -> None:
    async def story(cluster: Cluster) -> None:
        machine = cluster.machines[2]
        machine.disk.faults.fail_next_read("/nowhere")
        machine.kill()
        machine.switch_on()
        assert (machine.lives, machine.failed_life) == (2, 2)
        machine.disk.faults.clear()
        machine.kill()
        machine.switch_on()
        assert (machine.lives, machine.failed_life) == (3, 2)

    with_cluster(story)
