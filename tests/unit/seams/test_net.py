"""The simulated network: real protocols over simulated wires with delays and faults."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.sim.seams.loop import run
from tests.sim.seams.net import SimNet, SimNetwork
from tests.sim.seams.wire import Conditions

CALM = Conditions(split_rate=0.0, gather_rate=0.0)
LETTERS = bytes(range(256)) * 40


class Peer(asyncio.Protocol):
    """Records its events."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.paused: list[bool] = []
        self.eof = False

    @property
    def received(self) -> bytes:
        return b"".join(self.pieces)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def eof_received(self) -> bool | None:
        self.eof = True
        return None

    def pause_writing(self) -> None:
        self.paused.append(True)

    def resume_writing(self) -> None:
        self.paused.append(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class BufferedPeer(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._buffer = bytearray(64)
        self.received = bytearray()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]


class Pair:
    """A host that listens and one that has connected to it."""

    def __init__(self, network: SimNetwork) -> None:
        self.network = network
        self.near, self.far = network.host("near"), network.host("far")
        self.accepted: list[Any] = []

    async def connect(self, factory: Callable[[], Any] = Peer) -> tuple[Peer, Any]:
        if not self.far.listeners:
            await self.far.listen(lambda: self._accept(factory), "0.0.0.0", 9092)
        client = await self.near.connect(Peer, "far", 9092)
        assert isinstance(client, Peer)
        await asyncio.sleep(0.1)
        return client, self.accepted[-1]

    def _accept(self, factory: Callable[[], Any]) -> Any:
        self.accepted.append(factory())
        return self.accepted[-1]


def simulate(
    scenario: Callable[[Pair], Awaitable[Any]], seed: int = 0, conditions: Conditions = CALM
) -> Any:
    async def main() -> Any:
        return await scenario(Pair(SimNetwork(seed, conditions)))

    return run(main(), seed)


def test_bytes_arrive_in_order_however_they_are_cut_and_gathered() -> None:
    conditions = Conditions(split_rate=0.5, gather_rate=0.5, window_bytes=3_000)

    async def scenario(pair: Pair) -> tuple[int, ...]:
        client, server = await pair.connect()
        for start in range(0, len(LETTERS), 512):
            client.transport.write(LETTERS[start : start + 512])
        await asyncio.sleep(60)
        assert server.received == LETTERS
        return tuple(len(piece) for piece in server.pieces)

    sizes = [simulate(scenario, seed, conditions) for seed in range(10)]
    assert sizes == [simulate(scenario, seed, conditions) for seed in range(10)]
    assert len(set(sizes)) == 10
    assert any(min(cut) < 512 for cut in sizes)
    assert any(max(gathered) > 512 for gathered in sizes)


def test_a_buffered_protocol_is_given_its_own_buffer_to_read() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect(BufferedPeer)
        client.transport.writelines([LETTERS[:5000], bytearray(LETTERS[5000:])])
        await asyncio.sleep(60)
        assert server.received == LETTERS

    simulate(scenario, 1, Conditions())


def test_close_delivers_written_bytes_and_then_eof() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        client.transport.write(LETTERS)
        client.transport.close()
        client.transport.write(b"too late")
        assert client.transport.is_closing()
        assert await client.lost is None
        assert await server.lost is None
        assert server.eof
        assert server.received == LETTERS

    for seed in range(10):
        simulate(scenario, seed, Conditions(window_bytes=1_000))


def test_half_a_connection_may_be_ended_while_the_other_half_answers() -> None:
    class Answering(Peer):
        def eof_received(self) -> bool:
            self.transport.write(b"answer to " + self.received)
            self.transport.close()
            return True

    async def scenario(pair: Pair) -> None:
        client, _ = await pair.connect(Answering)
        client.transport.write(b"question")
        client.transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            client.transport.write(b"more")
        assert await client.lost is None
        assert client.received == b"answer to question"

    simulate(scenario)


def test_abort_drops_unsent_bytes() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        client.transport.write(LETTERS)
        client.transport.abort()
        assert await client.lost is None
        assert await server.lost is None
        assert server.received == LETTERS[:1_000]

    simulate(scenario, 0, replace(CALM, window_bytes=1_000))


def test_a_reset_is_an_error_at_both_ends() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        pair.network.reset("near", "far")
        for peer in (client, server):
            assert isinstance(await peer.lost, ConnectionResetError)
            assert peer.transport.is_closing()

    simulate(scenario)


def test_resets_come_by_themselves_at_their_rate() -> None:
    async def scenario(pair: Pair) -> Exception | None:
        client, _ = await pair.connect()
        for _ in range(200):
            client.transport.write(b"x")
            await asyncio.sleep(0.01)
        return await client.lost

    error = simulate(scenario, 0, replace(CALM, reset_rate=0.05))
    assert isinstance(error, ConnectionResetError)


def test_writing_to_a_peer_that_has_closed_is_answered_with_a_reset() -> None:
    class Staying(Peer):
        def eof_received(self) -> bool:
            return True

    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect(Staying)
        client.transport.close()
        await asyncio.sleep(1)
        server.transport.write(b"anybody there?")
        assert isinstance(await server.lost, ConnectionResetError)

    simulate(scenario)


def test_a_black_hole_delivers_nothing_until_it_is_healed() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        client.transport.write(b"before ")
        await asyncio.sleep(1)
        pair.network.partition("near", "far")
        client.transport.write(b"during ")
        server.transport.write(b"unheard")
        await asyncio.sleep(600)
        assert server.received == b"before "
        assert client.received == b""
        assert not client.lost.done()
        pair.network.heal("near", "far")
        client.transport.write(b"after")
        await asyncio.sleep(1)
        assert server.received == b"before during after"
        assert client.received == b"unheard"

    simulate(scenario)


def test_a_sender_gives_up_on_a_black_hole_and_its_peer_never_knows() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        pair.network.block("near", "far")
        client.transport.write(b"hello?")
        error = await client.lost
        assert isinstance(error, TimeoutError)
        assert asyncio.get_running_loop().time() > 900
        await asyncio.sleep(10_000)
        assert not server.lost.done()

    simulate(scenario)


def test_connecting_fails_as_it_does_on_a_real_network() -> None:
    async def scenario(pair: Pair) -> None:
        with pytest.raises(ConnectionRefusedError):
            await pair.near.connect(Peer, "far", 9092)
        with pytest.raises(OSError, match="nobody"):
            await pair.near.connect(Peer, "nobody", 9092)
        pair.network.block("far", "near")
        with pytest.raises(TimeoutError):
            await pair.connect()
        assert asyncio.get_running_loop().time() > 127
        assert pair.accepted == []

    simulate(scenario)


def test_a_partition_that_heals_in_time_only_delays_a_connect() -> None:
    async def scenario(pair: Pair) -> None:
        pair.network.partition("near", "far")
        asyncio.get_running_loop().call_later(20, pair.network.heal)
        await pair.connect()
        assert 20 < asyncio.get_running_loop().time() < 40

    simulate(scenario)


def test_a_connect_that_is_cancelled_leaves_no_connection() -> None:
    async def scenario(pair: Pair) -> None:
        pair.network.block("far", "near")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await pair.connect()
        pair.network.heal()
        await asyncio.sleep(1_000)
        assert pair.accepted == []

    simulate(scenario)


def test_a_listener_whose_factory_fails_hangs_up_and_fails_the_run() -> None:
    def planted() -> Peer:
        raise LookupError("planted")

    async def scenario(pair: Pair) -> None:
        await pair.far.listen(planted, "", 1)
        client = await pair.near.connect(Peer, "far", 1)
        assert isinstance(client, Peer)
        assert await client.lost is None

    with pytest.raises(ExceptionGroup) as caught:
        simulate(scenario)
    assert caught.group_contains(LookupError, match="planted")


def test_ports_are_taken_found_and_freed() -> None:
    async def scenario(pair: Pair) -> None:
        listener = await pair.far.listen(Peer, "far", 9092)
        with pytest.raises(OSError) as taken:
            await pair.far.listen(Peer, "0.0.0.0", 9092)
        assert taken.value.errno == errno.EADDRINUSE
        with pytest.raises(OSError) as foreign:
            await pair.far.listen(Peer, "near", 1)
        assert foreign.value.errno == errno.EADDRNOTAVAIL
        assert (await pair.far.listen(Peer, "far", 0)).port > 30_000
        client = await pair.near.connect(Peer, "far", 9092)
        assert isinstance(client, Peer)
        await listener.close()
        assert client.transport.get_extra_info("peername") == ("far", 9092)
        with pytest.raises(ConnectionRefusedError):
            await pair.near.connect(Peer, "far", 9092)
        assert not client.lost.done()
        await pair.far.listen(Peer, "far", 9092)

    simulate(scenario)


def test_loopback_is_reached_from_its_own_host_alone() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.far.listen(Peer, "127.0.0.1", 9092)
        assert isinstance(await pair.far.connect(Peer, "localhost", 9092), Peer)
        with pytest.raises(ConnectionRefusedError):
            await pair.near.connect(Peer, "far", 9092)

    simulate(scenario)


def test_a_process_crash_is_heard_by_its_peers_and_not_by_itself() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        pair.far.crash()
        await client.lost
        assert not server.lost.done()
        with pytest.raises(ConnectionRefusedError):
            await pair.near.connect(Peer, "far", 9092)

    simulate(scenario)


def test_a_power_loss_leaves_half_open_connections_that_the_reboot_resets() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        pair.far.power_loss()
        await asyncio.sleep(300)
        assert not client.lost.done()
        client.transport.write(b"are you there?")
        await asyncio.sleep(300)
        assert not client.lost.done()
        with pytest.raises(OSError) as caught:
            await pair.far.listen(Peer, "far", 9092)
        assert caught.value.errno == errno.ENETDOWN
        pair.far.boot()
        assert isinstance(await client.lost, ConnectionResetError)
        assert not server.lost.done()
        assert server.received == b""

    simulate(scenario)


@pytest.mark.parametrize("dies_after_s", [0, 5])
def test_bytes_that_a_dead_machine_sent_into_a_black_hole_never_arrive(dies_after_s: int) -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        pair.network.partition("near", "far")
        server.transport.write(b"last words")
        await asyncio.sleep(dies_after_s)
        pair.far.power_loss()
        await asyncio.sleep(5)
        pair.far.boot()
        pair.network.heal()
        await asyncio.sleep(100)
        assert client.received == b""
        client.transport.write(b"hello?")
        assert isinstance(await client.lost, ConnectionResetError)

    simulate(scenario)


def test_a_reader_that_pauses_fills_the_writer_up_and_frees_it_again() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        server.transport.pause_reading()
        client.transport.set_write_buffer_limits(high=2_000, low=500)
        assert client.transport.get_write_buffer_limits() == (500, 2_000)
        client.transport.write(LETTERS[:1_000])
        assert client.paused == []
        client.transport.write(LETTERS[1_000:])
        assert client.paused == [True]
        assert client.transport.get_write_buffer_size() == len(LETTERS) - 1_000
        await asyncio.sleep(1_000)
        assert server.received == b""
        assert client.paused == [True]
        server.transport.resume_reading()
        await asyncio.sleep(60)
        assert client.paused == [True, False]
        assert server.received == LETTERS

    simulate(scenario, 0, replace(CALM, window_bytes=1_000))


def test_a_buffer_reused_after_write_is_exposed_by_late_reads() -> None:
    async def scenario(pair: Pair) -> bytes:
        client, server = await pair.connect()
        buffer = bytearray(b"first")
        client.transport.write(buffer)
        buffer[:] = b"other"
        await asyncio.sleep(1)
        return bytes(server.received)

    assert simulate(scenario, 0, CALM) == b"first"
    assert simulate(scenario, 0, replace(CALM, late_read=True)) == b"other"


def test_a_slow_link_is_slow_in_its_own_direction_only() -> None:
    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect()
        slow = replace(CALM, latency_us_min=3_000_000, latency_us_max=3_000_000)
        pair.network.set_link("near", "far", slow)
        client.transport.write(b"slow")
        server.transport.write(b"fast")
        await asyncio.sleep(1)
        assert (server.received, client.received) == (b"", b"fast")
        await asyncio.sleep(3)
        assert server.received == b"slow"

    simulate(scenario)


def test_a_protocol_that_fails_loses_its_connection_and_fails_the_run() -> None:
    class Failing(Peer):
        def data_received(self, data: bytes) -> None:
            raise LookupError("planted")

    async def scenario(pair: Pair) -> None:
        client, server = await pair.connect(Failing)
        client.transport.write(b"x")
        assert isinstance(await server.lost, LookupError)
        await client.lost

    with pytest.raises(ExceptionGroup) as caught:
        simulate(scenario)
    assert caught.group_contains(LookupError, match="planted")


def test_only_bytes_can_be_written() -> None:
    async def scenario(pair: Pair) -> None:
        client, _ = await pair.connect()
        with pytest.raises(TypeError, match="str"):
            client.transport.write("text")  # type: ignore[arg-type]

    simulate(scenario)


def test_a_seed_run_twice_gives_the_same_trace() -> None:
    class Echo(Peer):
        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    async def chatter(net: SimNet, rounds: int) -> None:
        for _ in range(rounds):
            client = await net.connect(Peer, "server", 1)
            assert isinstance(client, Peer)
            client.transport.write(LETTERS)
            await asyncio.sleep(0.05)
            client.transport.close()
            await client.lost

    async def main(seed: int) -> str:
        network = SimNetwork(seed, Conditions(reset_rate=0.02, late_read=seed % 2 == 0))
        await network.host("server").listen(Echo, "", 1)
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(chatter(network.host(f"client-{number}"), 3))
        return network.trace_hash()

    traces = [run(main(seed), seed) for seed in range(8)]
    assert traces == [run(main(seed), seed) for seed in range(8)]
    assert len(set(traces)) == 8
