"""Health and metrics over HTTP, with clients that are correct, odd, slow and many."""

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.http.health import Health
from ottla.broker.http.server import HttpLimits, HttpServer
from ottla.metrics.node import NodeMetrics
from ottla.seams.net import RealNet
from tests.sim.seams.loop import run
from tests.sim.seams.net import SimNet, SimNetwork
from tests.sim.seams.wire import Conditions

CALM = Conditions(split_rate=0.0, gather_rate=0.0)
PORT = 9644


class Client(asyncio.Protocol):
    """Sends bytes, and keeps the response."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = b""
        self.closed_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed_at = asyncio.get_running_loop().time()

    async def ask(self, request: bytes, seconds: float = 1.0) -> bytes:
        """The bytes received within `seconds` after sending this."""
        self.received = b""
        self.transport.write(request)
        await asyncio.sleep(seconds)
        return self.received


class World:
    """A server on one machine, and its clients on another."""

    def __init__(self, conditions: Conditions, limits: HttpLimits | None) -> None:
        network = SimNetwork(0, conditions)
        self.near: SimNet = network.host("near")
        self.far: SimNet = network.host("far")
        self.health = Health()
        self.metrics = NodeMetrics()
        self.render: Callable[[], Iterator[bytes]] = self.metrics.render
        self.server = HttpServer(self.far, self.health, lambda: self.render(), limits)

    async def connect(self) -> Client:
        client = await self.near.connect(Client, "far", PORT)
        assert isinstance(client, Client)
        await asyncio.sleep(0.1)
        return client


def simulate(
    scenario: Callable[[World], Awaitable[Any]],
    conditions: Conditions = CALM,
    limits: HttpLimits | None = None,
    seed: int = 0,
) -> None:
    async def main() -> None:
        world = World(conditions, limits)
        assert await world.server.start("0.0.0.0", PORT) == PORT
        await scenario(world)
        await world.server.close()
        await asyncio.sleep(1)
        assert world.server.connection_count == 0

    run(main(), seed)


def get(path: str, *, method: str = "GET", version: str = "1.1", headers: str = "") -> bytes:
    return f"{method} {path} HTTP/{version}\r\nHost: far\r\n{headers}\r\n".encode()


class Answer:
    """A parsed response."""

    def __init__(self, response: bytes) -> None:
        head, _, self.rest = response.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        self.status = int(status.split()[1])
        self.headers = dict(line.lower().split(": ", 1) for line in lines)

    @property
    def body(self) -> bytes:
        if self.headers.get("transfer-encoding") == "chunked":
            return self._joined_chunks()
        if "content-length" in self.headers:
            assert len(self.rest) == int(self.headers["content-length"])
        return self.rest

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    def _joined_chunks(self) -> bytes:
        body, rest = b"", self.rest
        while True:
            size, _, rest = rest.partition(b"\r\n")
            if int(size, 16) == 0:
                assert rest == b"\r\n"
                return body
            body += rest[: int(size, 16)]
            assert rest[int(size, 16) :].startswith(b"\r\n")
            rest = rest[int(size, 16) + 2 :]


def test_a_healthy_node_answers_200() -> None:
    async def scenario(world: World) -> None:
        client = await world.connect()
        for path in ("/health/live", "/health/ready", "/health/ready?verbose=1"):
            answer = Answer(await client.ask(get(path)))
            assert answer.status == 200
            assert answer.headers["content-type"] == "application/json"
            assert answer.content == {"status": "ok", "reasons": []}

    simulate(scenario)


def test_a_node_that_is_not_ready_gives_reasons() -> None:
    async def scenario(world: World) -> None:
        client = await world.connect()
        world.health.ready.fail("recovery", "1 of 3 logs")
        world.health.ready.fail("recovery", "2 of 3 logs")
        world.health.ready.fail("controller", "none elected")
        answer = Answer(await client.ask(get("/health/ready")))
        assert answer.status == 503
        assert answer.content == {
            "status": "unavailable",
            "reasons": ["recovery: 2 of 3 logs", "controller: none elected"],
        }
        assert Answer(await client.ask(get("/health/live"))).status == 200
        world.health.ready.clear("recovery")
        world.health.ready.clear("controller")
        assert Answer(await client.ask(get("/health/ready"))).status == 200

    simulate(scenario)


def test_a_node_that_is_not_alive_is_not_ready_either() -> None:
    async def scenario(world: World) -> None:
        client = await world.connect()
        world.health.live.fail("disk", "every log directory is offline")
        for path in ("/health/live", "/health/ready"):
            answer = Answer(await client.ask(get(path)))
            assert answer.status == 503
            assert answer.content["reasons"] == ["disk: every log directory is offline"]

    simulate(scenario)


def test_metrics_come_in_chunks_on_a_connection_that_stays() -> None:
    async def scenario(world: World) -> None:
        for number in range(2_000):
            world.metrics.topic(f"topic-{number}").messages_in = number
        client = await world.connect()
        for _ in range(2):
            answer = Answer(await client.ask(get("/metrics"), seconds=60))
            assert answer.status == 200
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            families = list(text_string_to_metric_families(answer.body.decode()))
            assert families[0].samples[-1].value == sum(range(2_000))
        assert client.closed_at is None

    for seed in range(3):
        simulate(scenario, Conditions(), seed=seed)


def test_an_old_client_gets_metrics_without_chunks_and_the_end_of_the_connection() -> None:
    async def scenario(world: World) -> None:
        client = await world.connect()
        answer = Answer(await client.ask(get("/metrics", version="1.0"), seconds=60))
        assert "transfer-encoding" not in answer.headers
        assert list(text_string_to_metric_families(answer.body.decode()))
        assert client.closed_at is not None

    simulate(scenario)


def test_head_gets_the_response_without_its_body() -> None:
    rendered = []

    def slices() -> Iterator[bytes]:
        rendered.append(True)
        yield b"a 1\n"

    async def scenario(world: World) -> None:
        world.render = slices
        client = await world.connect()
        for path in ("/health/live", "/metrics"):
            head = Answer(await client.ask(get(path, method="HEAD")))
            assert (head.status, head.rest) == (200, b"")
            assert not rendered
            assert head.headers == Answer(await client.ask(get(path))).headers

    simulate(scenario)


def test_pipelined_requests_are_answered_in_their_order() -> None:
    async def scenario(world: World) -> None:
        world.render = lambda: iter([b"one ", b"", b"two"])
        client = await world.connect()
        requests = get("/health/live") + get("/metrics") + get("/nothing") + get("/health/live")
        received = await client.ask(requests, seconds=10)
        marks = [b'"ok"', b"one ", b"two", b" 404 ", b'"ok"']
        position = 0
        for mark in marks:
            position = received.index(mark, position) + len(mark)
        assert received.count(b"HTTP/1.1 ") == 4

    simulate(scenario)


def test_a_request_may_arrive_a_byte_at_a_time() -> None:
    async def scenario(world: World) -> None:
        client = await world.connect()
        for byte in get("/health/live"):
            client.transport.write(bytes([byte]))
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        assert Answer(client.received).status == 200

    simulate(scenario)


@pytest.mark.parametrize(
    ("request_bytes", "status", "stays"),
    [
        (get("/"), 404, True),
        (get("/metrics/"), 404, True),
        (get("/metrics", method="POST"), 405, False),
        (get("/health/live", method="DELETE"), 405, False),
        (get("/health/live", headers="Content-Length: 5\r\n") + b"12345", 413, False),
        (get("/health/live", headers="Transfer-Encoding: chunked\r\n"), 413, False),
        (get("/health/live", headers="Content-Length: 0\r\nContent-Length: 5\r\n"), 413, False),
        (get("/health/live", headers="Content-Length: 0\r\n"), 200, True),
        (get("/health/live", version="2.0"), 400, False),
        (get("/health/live", headers="no colon\r\n"), 400, False),
        (get("/health/live", headers=" folded: line\r\n"), 400, False),
        (get("/health/live", headers="Spaced : name\r\n"), 400, False),
        (b"GET /health/live HTTP/1.1\r\n\r\n", 400, False),
        (b"GET /health/live HTTP/1.0\r\n\r\n", 200, False),
        (get("/health/live", version="1.0", headers="Connection: Keep-Alive\r\n"), 200, True),
        (get("/health/live", headers="Connection: close\r\n"), 200, False),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, False),
        (b"\r\n\r\n", 400, False),
        (b"GET  /health/live HTTP/1.1\r\nHost: a\r\n\r\n", 400, False),
    ],
)
def test_each_kind_of_request_has_its_status(
    request_bytes: bytes, status: int, stays: bool
) -> None:
    async def scenario(world: World) -> None:
        client = await world.connect()
        answer = Answer(await client.ask(request_bytes))
        assert answer.status == status
        assert answer.content["reasons"] or status == 200
        assert answer.headers["connection"] == ("keep-alive" if stays else "close")
        assert (client.closed_at is None) is stays
        if status == 405:
            assert answer.headers["allow"] == "get, head"

    simulate(scenario)


@pytest.mark.parametrize("ended", [True, False])
def test_a_head_that_is_too_long_is_refused_before_it_ends(ended: bool) -> None:
    limits = HttpLimits(head_bytes_max=200)

    async def scenario(world: World) -> None:
        client = await world.connect()
        request = get("/health/live", headers=f"Long: {'x' * 200}\r\n")
        answer = Answer(await client.ask(request if ended else request[:-2]))
        assert answer.status == 431
        assert client.closed_at is not None

    simulate(scenario, limits=limits)


def test_a_client_that_never_finishes_its_request_is_disconnected() -> None:
    async def scenario(world: World) -> None:
        silent, slow = await world.connect(), await world.connect()
        loop = asyncio.get_running_loop()
        began = loop.time()
        slow.transport.write(b"GET /health/live HTTP/1.1\r\n")
        while slow.closed_at is None:
            slow.transport.write(b"A: b\r\n")
            await asyncio.sleep(0.5)
        assert slow.closed_at - began < 11
        await asyncio.sleep(1)
        assert silent.closed_at is not None
        assert world.server.connection_count == 0

    simulate(scenario)


def test_an_idle_connection_is_kept_for_the_next_scrape_and_not_for_ever() -> None:
    async def scenario(world: World) -> None:
        client = await world.connect()
        for _ in range(3):
            assert Answer(await client.ask(get("/health/live"), seconds=60)).status == 200
            assert client.closed_at is None
        await asyncio.sleep(20)
        assert client.closed_at is not None

    simulate(scenario)


def test_a_client_that_does_not_read_stops_the_rendering_and_is_disconnected() -> None:
    made = []

    def endless() -> Iterator[bytes]:
        while True:
            made.append(1)
            yield b"x" * 10_000

    async def scenario(world: World) -> None:
        world.render = endless
        client = await world.connect()
        client.transport.pause_reading()
        client.transport.write(get("/metrics"))
        await asyncio.sleep(10)
        rendered = len(made)
        assert 0 < rendered < 50
        await asyncio.sleep(10)
        assert len(made) == rendered
        assert world.server.connection_count == 1
        await asyncio.sleep(20)
        assert world.server.connection_count == 0

    simulate(scenario)


def test_other_work_has_its_turn_between_two_slices() -> None:
    turns = []

    def slices() -> Iterator[bytes]:
        for number in range(50):
            turns.append("slice")
            asyncio.get_running_loop().call_soon(turns.append, "other")
            yield b"%d\n" % number

    async def scenario(world: World) -> None:
        world.render = slices
        client = await world.connect()
        answer = Answer(await client.ask(get("/metrics")))
        assert answer.body.split() == [b"%d" % number for number in range(50)]
        assert turns == ["slice", "other"] * 50

    simulate(scenario)


def test_two_hundred_idle_connections_do_not_block_a_probe_or_a_scrape() -> None:
    async def scenario(world: World) -> None:
        idle = [await world.connect() for _ in range(200)]
        probe = await world.connect()
        assert Answer(await probe.ask(get("/health/ready"))).status == 200
        scrape = await world.connect()
        assert Answer(await scrape.ask(get("/metrics"), seconds=5)).status == 200
        assert world.server.connection_count <= world.server.limits.connections_max
        # The oldest were replaced, the latest are open.
        assert all(client.closed_at is not None for client in idle[:168])
        assert all(client.closed_at is None for client in idle[-20:])

    simulate(scenario, limits=HttpLimits(head_timeout_s=1e6))


def test_clients_that_send_slowly_do_not_block_a_probe() -> None:
    async def scenario(world: World) -> None:
        async def drip(client: Client) -> None:
            client.transport.write(b"GET /health/live HTTP/1.1\r\n")
            while client.closed_at is None:
                client.transport.write(b"A")
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as dripping:
            for _ in range(40):
                dripping.create_task(drip(await world.connect()))
            probe = await world.connect()
            assert Answer(await probe.ask(get("/health/ready"))).status == 200
            await asyncio.sleep(12)
            assert world.server.connection_count == 1, "only the probe's, which is kept alive"

    simulate(scenario)


def test_clients_that_do_not_read_do_not_block_a_probe() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 10_000

    async def scenario(world: World) -> None:
        world.render = endless
        unread = [await world.connect() for _ in range(2)]
        for client in unread:
            client.transport.pause_reading()
            client.transport.write(get("/metrics"))
            await asyncio.sleep(1)
        probe = await world.connect()
        assert Answer(await probe.ask(get("/health/ready"))).status == 200
        assert world.server.connection_count == 2
        client.transport.resume_reading()
        await asyncio.sleep(1)
        assert unread[1].received, "the answer that began later goes on"

    simulate(scenario, limits=HttpLimits(connections_max=2))


def test_the_oldest_waiting_connection_is_replaced_before_one_with_a_response() -> None:
    async def scenario(world: World) -> None:
        world.render = lambda: iter([b"x" * 10_000] * 100 + [b"ended"])
        answered, half, idle = [await world.connect() for _ in range(3)]
        answered.transport.pause_reading()
        answered.transport.write(get("/metrics", version="1.0"))
        half.transport.write(get("/health/live")[:-1])
        await asyncio.sleep(0.2)
        late = [await world.connect()]
        assert (answered.closed_at, idle.closed_at) == (None, None)
        assert half.closed_at is not None
        late.append(await world.connect())
        assert idle.closed_at is not None
        answered.transport.resume_reading()
        await asyncio.sleep(5)
        assert answered.received.endswith(b"ended")
        for client in late:
            assert Answer(await client.ask(get("/health/live"))).status == 200

    simulate(scenario, limits=HttpLimits(connections_max=3))


def test_a_response_renews_the_age_of_a_connection() -> None:
    async def scenario(world: World) -> None:
        scraper, idle = [await world.connect() for _ in range(2)]
        assert Answer(await scraper.ask(get("/health/live"))).status == 200
        await world.connect()
        assert idle.closed_at is not None
        assert scraper.closed_at is None

    simulate(scenario, limits=HttpLimits(connections_max=2))


@pytest.mark.timeout(60)
def test_a_header_of_spaces_does_not_stop_the_broker() -> None:
    async def scenario(world: World) -> None:
        for headers, status in (
            (f"A:{' ' * 8_000}\n\r\n", 400),
            (f"A:{' ' * 8_000}\r\n", 200),
            (f"A:{' ' * 16_384}\r\n", 431),
            ("a:b\r\n" * 1_000, 431),
        ):
            client = await world.connect()
            assert Answer(await client.ask(get("/health/live", headers=headers))).status == status

    simulate(scenario)


def test_a_head_is_searched_once_however_it_is_split() -> None:
    searched = []

    class Counted(bytearray):
        def find(self, wanted: bytes, start: int = 0) -> int:  # type: ignore[override]
            searched.append(len(self) - start)
            return super().find(wanted, start)

    async def scenario(world: World) -> None:
        client = await world.connect()
        (connection,) = world.server._waiting
        connection._received = Counted()
        request = get("/health/live", headers=f"A: {'b' * 4_000}\r\n")
        for byte in request:
            client.transport.write(bytes([byte]))
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        assert Answer(client.received).status == 200
        # Only the last three bytes are searched again, which may begin the end of the head.
        assert sum(searched) <= 4 * len(request)

    simulate(scenario)


def test_a_bug_while_rendering_ends_the_connection_and_is_raised() -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    async def scenario(world: World) -> None:
        world.render = broken
        client = await world.connect()
        await client.ask(get("/metrics"))
        assert client.closed_at is not None

    with pytest.raises(ExceptionGroup) as caught:
        simulate(scenario)
    assert caught.group_contains(ZeroDivisionError)


def test_closing_ends_connections_and_frees_the_port() -> None:
    async def scenario(world: World) -> None:
        client = await world.connect()
        await world.server.close()
        await asyncio.sleep(1)
        assert client.closed_at is not None
        with pytest.raises(ConnectionRefusedError):
            await world.connect()

    simulate(scenario)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_the_standard_librarys_client_understands_it_over_tcp(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    def ask_twice(port: int) -> tuple[int, bytes, int]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", "/metrics")
        metrics = connection.getresponse()
        page = metrics.read()
        socket = connection.sock
        connection.request("GET", "/health/ready")
        ready = connection.getresponse()
        ready.read()
        assert connection.sock is socket, "the connection was not kept"
        connection.close()
        return metrics.status, page, ready.status

    async def main() -> None:
        metrics = NodeMetrics()
        for number in range(1_000):
            metrics.topic(f"topic-{number}").bytes_in = number
        server = HttpServer(RealNet(), Health(), metrics.render)
        port = await server.start("127.0.0.1", 0)
        status, page, ready = await asyncio.to_thread(ask_twice, port)
        assert (status, ready) == (200, 200)
        assert page == b"".join(metrics.render())
        await server.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
