"""Starts of a broker that has peers: they wait for the controller, and can be given up."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.broker.node.membership import DRAIN_TIMEOUT_S
from ottla.metadata.values import BrokerState
from tests.sim.seams.loop import run
from tests.support.broker.cluster import BROKERS_PORT, Cluster


def tell(story: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    """Runs a story in which broker 1 has started."""
    cluster = Cluster()

    async def told() -> None:
        await cluster.start(1)
        try:
            await story(cluster)
        finally:
            await cluster.stop()

    run(told(), clock=cluster.machine(1).clock)


async def start_without_controller(cluster: Cluster) -> "asyncio.Task[None]":
    """Begins the start of broker 2, which has registered. Nobody records it."""
    cluster.hold_controller()
    await cluster.kill(1)
    starting = asyncio.create_task(cluster.start(2))
    await asyncio.sleep(1)
    assert [each.registration.broker_id for each in cluster.ensemble.registered] == [2]
    assert not starting.done()
    return starting


def test_a_new_broker_whose_port_is_taken_says_so_and_frees_everything() -> None:
    async def story(cluster: Cluster) -> None:
        net = cluster.machine(2).net
        other = await net.listen(asyncio.Protocol, "0.0.0.0", BROKERS_PORT)
        began = asyncio.get_running_loop().time()
        with pytest.raises(OSError, match="in use"):
            await cluster.start(2)
        # It has registered nowhere, so it leads nothing that others must take over.
        assert asyncio.get_running_loop().time() - began < DRAIN_TIMEOUT_S
        await other.close()
        await cluster.start(2)

    tell(story)


def test_a_start_that_waits_for_a_controller_can_be_given_up() -> None:
    async def story(cluster: Cluster) -> None:
        starting = await start_without_controller(cluster)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not cluster.ensemble.registered

    tell(story)


def test_a_broker_that_loses_its_session_before_it_is_up_registers_again() -> None:
    async def story(cluster: Cluster) -> None:
        starting = await start_without_controller(cluster)
        first_epoch = cluster.broker_epoch(2)
        cluster.expire(2)
        await asyncio.sleep(1)
        assert cluster.broker_epoch(2) > first_epoch
        assert cluster.ensemble._controller is not None
        cluster.ensemble.expire(cluster.ensemble._controller)
        async with asyncio.timeout(60):
            await starting
        publisher = cluster.nodes[2]._publisher
        assert publisher is not None
        broker = publisher.image.brokers[2]
        assert (broker.state, broker.epoch) == (BrokerState.UP, cluster.broker_epoch(2))

    tell(story)


def test_the_log_directory_is_locked_before_anything_is_written_there() -> None:
    """Two processes may start at once on one directory. The second one must not even write there
    that it has the directory.
    """

    async def story(cluster: Cluster) -> None:
        machine = cluster.machine(2)
        node = machine.node(**cluster._settings_of(2))
        found: list[set[str]] = []

        class GivenUp(Exception):
            pass

        def on_owned() -> None:
            with pytest.raises(BlockingIOError):
                machine.disk.process().lock("/data/.lock")
            found.append(set(machine.disk.process().list("/data")))
            raise GivenUp

        node._on_owned = on_owned
        with pytest.raises(GivenUp):
            await node.start()
        assert found == [{".lock"}]
        # The lock is free again.
        await cluster.start(2)

    tell(story)
