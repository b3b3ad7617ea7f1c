"""Processes on the simulated loop: each can be paused while the others go on, and can be killed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from tests.sim.seams.clock import SimClock
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import SimLoop, SimTask, run
from tests.sim.seams.net import SimNet, SimNetwork
from tests.sim.seams.owner import OWNER, Owner
from tests.sim.seams.threads import SimThreads
from tests.sim.seams.wire import Conditions

STEADY = Conditions(latency_us_min=100, latency_us_max=100, split_rate=0, gather_rate=0)


def sim_loop() -> SimLoop:
    return cast("SimLoop", asyncio.get_running_loop())


def now() -> float:
    return asyncio.get_running_loop().time()


def spawn(owner: Owner, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(coroutine, context=owner.context())


class Ticker:
    """Notes the time every second."""

    def __init__(self) -> None:
        self.times: list[float] = []

    async def run(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.times.append(now())


# --- ownership ----------------------------------------------------------------------------------


def test_tasks_callbacks_and_timers_inherit_the_owner_of_their_creator() -> None:
    async def main() -> list[str]:
        owner, seen = Owner("one"), []

        def note(where: str) -> None:
            current = OWNER.get()
            seen.append(f"{where} {current.name if current else None}")

        async def child() -> None:
            note("child")

        async def process() -> None:
            note("process")
            sim_loop().call_soon(note, "callback")
            sim_loop().call_later(1, note, "timer")
            task = asyncio.create_task(child())
            assert isinstance(task, SimTask)
            assert task.owner is owner
            await task

        await spawn(owner, process())
        await asyncio.sleep(2)
        note("simulation")
        return seen

    assert run(main()) == [
        "process one",
        "callback one",
        "child one",
        "timer one",
        "simulation None",
    ]


# --- pause --------------------------------------------------------------------------------------


def test_a_paused_process_stands_still_while_its_peers_and_the_clock_go_on() -> None:
    async def main() -> tuple[list[float], list[float]]:
        stopped, peer = Ticker(), Ticker()
        owners = Owner("stopped"), Owner("peer")
        for owner, ticker in zip(owners, (stopped, peer), strict=True):
            spawn(owner, ticker.run())
        await asyncio.sleep(2.5)
        sim_loop().pause(owners[0])
        await asyncio.sleep(5)
        assert stopped.times == [1, 2]
        assert peer.times == [1, 2, 3, 4, 5, 6, 7]
        sim_loop().resume(owners[0])
        await asyncio.sleep(1.75)
        return stopped.times, peer.times

    stopped, peer = run(main())
    # The timer of the third second fires at once, and the next a second later.
    assert stopped == [1, 2, 7.5, 8.5]
    assert peer == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_what_became_due_in_a_pause_runs_in_that_order_and_before_what_is_due_later() -> None:
    async def main() -> list[str]:
        owner, ran = Owner("one"), []
        context = owner.context()
        loop = sim_loop()
        for when in (3, 1, 2):
            loop.call_at(when, ran.append, f"timer {when}", context=context)
        loop.pause(owner)
        loop.call_soon(ran.append, "callback", context=context)
        await asyncio.sleep(2.5)
        loop.call_soon(ran.append, "not yet held", context=context)
        loop.resume(owner)
        await asyncio.sleep(1)
        return ran

    expected = ["callback", "timer 1", "timer 2", "not yet held", "timer 3"]
    assert run(main()) == expected


def test_what_is_cancelled_while_it_is_held_does_not_run() -> None:
    async def main() -> list[str]:
        owner, ran = Owner("one"), []
        loop = sim_loop()
        loop.pause(owner)
        timer = loop.call_later(1, ran.append, "timer", context=owner.context())
        callback = loop.call_soon(ran.append, "callback", context=owner.context())
        await asyncio.sleep(2)
        timer.cancel()
        callback.cancel()
        loop.resume(owner)
        await asyncio.sleep(1)
        return ran

    assert run(main()) == []


def test_a_timeout_that_passes_in_a_pause_fires_at_the_resume() -> None:
    async def main() -> tuple[str, float]:
        owner = Owner("one")

        async def process() -> tuple[str, float]:
            try:
                async with asyncio.timeout(1):
                    await asyncio.Event().wait()
            except TimeoutError:
                return "timeout", now()
            raise AssertionError("no timeout")

        task = spawn(owner, process())
        await asyncio.sleep(0.5)
        sim_loop().pause(owner)
        await asyncio.sleep(9.5)
        assert not task.done()
        sim_loop().resume(owner)
        return cast("tuple[str, float]", await task)

    assert run(main()) == ("timeout", 10)


# --- the network of a paused process ------------------------------------------------------------


class Recorder(asyncio.Protocol):
    """Keeps what it receives, with the time, and how the connection ended."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.times: list[float] = []
        self.owners: list[Owner | None] = []
        self.lost: list[Exception | None] = []
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.owners.append(OWNER.get())

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.times.append(now())
        self.owners.append(OWNER.get())

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)
        self.owners.append(OWNER.get())


class Server:
    """A process that listens on host `server`, and a client of no process."""

    def __init__(self, conditions: Conditions = STEADY) -> None:
        self.network = SimNetwork(1, conditions)
        self.owner = Owner("server")
        self.accepted: list[Recorder] = []

    async def listen(self) -> None:
        await spawn(self.owner, self.network.host("server").listen(self._new, "", 9092))

    async def connect(self) -> Recorder:
        client = self.network.host("client")
        return cast("Recorder", await client.connect(Recorder, "server", 9092))

    def _new(self) -> Recorder:
        self.accepted.append(Recorder())
        return self.accepted[-1]


def test_bytes_for_a_paused_process_wait_in_the_kernel_and_the_peer_sees_silence() -> None:
    async def main() -> None:
        server = Server()
        await server.listen()
        client = await server.connect()
        await asyncio.sleep(1)
        (end,) = server.accepted
        assert client.transport is not None
        sim_loop().pause(server.owner)
        client.transport.write(b"hello")
        await asyncio.sleep(30)
        assert not end.received
        assert not client.lost
        sim_loop().resume(server.owner)
        await asyncio.sleep(1)
        assert (end.received, end.times) == (b"hello", [31 + 0.0002])
        assert set(map(str, end.owners)) == {str(server.owner)}
        assert set(client.owners) == {None}

    run(main())


def test_the_kernel_takes_no_more_than_its_window_for_a_paused_process() -> None:
    async def main() -> None:
        server = Server(Conditions(window_bytes=1_000, split_rate=0, gather_rate=0))
        await server.listen()
        client = await server.connect()
        await asyncio.sleep(1)
        assert client.transport is not None
        sim_loop().pause(server.owner)
        client.transport.write(bytes(5_000))
        await asyncio.sleep(30)
        assert client.transport.get_write_buffer_size() == 4_000
        sim_loop().resume(server.owner)
        await asyncio.sleep(1)
        assert len(server.accepted[0].received) == 5_000

    run(main())


def test_what_a_process_has_not_sent_before_its_pause_leaves_afterwards() -> None:
    async def main() -> None:
        server = Server(Conditions(window_bytes=1_000, split_rate=0, gather_rate=0))
        await server.listen()
        client = await server.connect()
        await asyncio.sleep(1)
        (end,) = server.accepted
        assert end.transport is not None
        server.owner.context().run(end.transport.write, bytes(5_000))
        sim_loop().pause(server.owner)
        await asyncio.sleep(30)
        # The kernel had taken a window's worth.
        assert len(client.received) == 1_000
        sim_loop().resume(server.owner)
        await asyncio.sleep(1)
        assert len(client.received) == 5_000

    run(main())


def test_connections_to_a_paused_process_are_made_and_accepted_later() -> None:
    async def main() -> None:
        server = Server()
        await server.listen()
        sim_loop().pause(server.owner)
        client = await server.connect()
        assert client.transport is not None
        client.transport.write(b"early")
        await asyncio.sleep(5)
        assert not server.accepted
        assert not client.lost
        sim_loop().resume(server.owner)
        await asyncio.sleep(1)
        assert [end.received for end in server.accepted] == [b"early"]
        assert server.accepted[0].owners[0] is server.owner

    run(main())


def test_a_connection_that_breaks_in_a_pause_is_lost_at_the_resume() -> None:
    async def main() -> None:
        server = Server()
        await server.listen()
        client = await server.connect()
        await asyncio.sleep(1)
        (end,) = server.accepted
        sim_loop().pause(server.owner)
        server.network.reset("client", "server")
        await asyncio.sleep(1)
        assert len(client.lost) == 1
        assert not end.lost
        sim_loop().resume(server.owner)
        await asyncio.sleep(1)
        assert len(end.lost) == 1

    run(main())


# --- the threads of a paused process ------------------------------------------------------------


def test_the_kernel_finishes_a_threads_work_in_a_pause_and_the_process_hears_later() -> None:
    async def main() -> None:
        owner, threads = Owner("one"), SimThreads(SimEntropy(0), delay_us_max=1_000)
        done: list[float] = []

        async def process() -> float:
            await threads.run(lambda: done.append(now()))
            return now()

        task = spawn(owner, process())
        await asyncio.sleep(0)
        sim_loop().pause(owner)
        await asyncio.sleep(5)
        assert len(done) == 1
        assert done[0] < 0.01
        assert not task.done()
        sim_loop().resume(owner)
        assert await task == 5

    run(main())


def test_no_thread_of_a_paused_process_begins_more_work() -> None:
    async def main() -> None:
        owner = Owner("one")
        threads = SimThreads(SimEntropy(0), workers_max=1, delay_us_max=1_000)
        done: list[str] = []
        tasks = [
            spawn(owner, threads.run(lambda: done.append("first"))),
            spawn(owner, threads.run(lambda: done.append("second"))),
        ]
        await asyncio.sleep(0)
        sim_loop().pause(owner)
        await asyncio.sleep(5)
        assert done == ["first"]
        sim_loop().resume(owner)
        await asyncio.gather(*tasks)
        assert done == ["first", "second"]

    run(main())


# --- kill ---------------------------------------------------------------------------------------


def test_a_killed_process_fires_no_timer_and_its_tasks_unwind_while_its_peers_live() -> None:
    async def main() -> None:
        owners, ran = (Owner("killed"), Owner("peer")), []

        async def process(name: str) -> None:
            sim_loop().call_later(1, ran.append, f"{name} timer")
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(2))
                ran.append(f"{name} slept")
            finally:
                ran.append(f"{name} unwound")

        tasks = [spawn(owner, process(owner.name)) for owner in owners]
        await asyncio.sleep(0.5)
        sim_loop().kill(owners[0])
        await asyncio.sleep(5)
        assert tasks[0].cancelled()
        assert tasks[1].done()
        assert ran == ["killed unwound", "peer timer", "peer slept", "peer unwound"]

    run(main())


def test_a_task_that_is_killed_before_its_first_step_is_cancelled_after_it() -> None:
    async def main() -> bool:
        owner = Owner("killed")
        task = spawn(owner, asyncio.sleep(1))
        sim_loop().kill(owner)
        await asyncio.sleep(5)
        return task.cancelled()

    assert run(main())


def test_a_task_that_a_dead_process_creates_while_it_unwinds_is_cancelled() -> None:
    async def main() -> None:
        owner, created = Owner("killed"), []

        async def process() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                created.append(asyncio.create_task(asyncio.sleep(10)))

        spawn(owner, process())
        await asyncio.sleep(1)
        sim_loop().kill(owner)
        await asyncio.sleep(1)
        assert [task.cancelled() for task in created] == [True]

    run(main())


def test_a_process_that_is_killed_in_its_pause_never_gets_what_was_held() -> None:
    async def main() -> list[str]:
        owner, ran = Owner("killed"), []
        sim_loop().call_later(1, ran.append, "timer", context=owner.context())
        task = spawn(owner, asyncio.sleep(2))
        sim_loop().pause(owner)
        await asyncio.sleep(5)
        sim_loop().kill(owner)
        await asyncio.sleep(5)
        assert task.cancelled()
        return ran

    assert run(main()) == []


def test_a_dead_process_can_neither_connect_nor_listen() -> None:
    async def main() -> None:
        network, owner = SimNetwork(1, STEADY), Owner("dead")
        net = network.host("one")

        async def reach(use: Callable[[SimNet], Coroutine[Any, Any, object]]) -> None:
            try:
                await asyncio.sleep(10)
            finally:
                with pytest.raises(OSError, match="Network is down"):
                    await use(net)

        tasks = [
            spawn(owner, reach(lambda net: net.listen(Recorder, "", 9092))),
            spawn(owner, reach(lambda net: net.connect(Recorder, "one", 9092))),
        ]
        await asyncio.sleep(1)
        sim_loop().kill(owner)
        await asyncio.sleep(1)
        assert [task.cancelled() for task in tasks] == [True, True]
        assert not net.listeners

    run(main())


# --- determinism --------------------------------------------------------------------------------


def test_a_seed_with_pauses_does_the_same_again() -> None:
    def once() -> tuple[str, int]:
        clock = SimClock()

        async def main() -> str:
            server = Server(Conditions(window_bytes=300))
            await server.listen()
            client = await server.connect()
            assert client.transport is not None
            entropy = SimEntropy(7)
            for number in range(50):
                client.transport.write(bytes([number]) * entropy.between(1, 200))
                await asyncio.sleep(entropy.between(0, 50) / 1e3)
                if entropy.chance(0.5):
                    sim_loop().pause(server.owner)
                    await asyncio.sleep(entropy.between(0, 500) / 1e3)
                    sim_loop().resume(server.owner)
            await asyncio.sleep(60)
            assert sorted(set(server.accepted[0].received)) == list(range(50))
            return server.network.trace_hash()

        return run(main(), 7, clock=clock, lateness_ns_max=1_000), clock.timeline.now_ns

    assert once() == once()
