"""The blocking connection: requests in flight, and every way in which it ends."""

import socket
import threading

import pytest

from ottla.address import Address
from ottla.client.blocking.connection import BlockingConnection, dial
from ottla.client.errors import ConnectionLost, TimedOut, Unreachable, UnsupportedByBroker
from ottla.client.options import ClientOptions
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.seams.blocking import RealBlocking
from ottla.seams.clock import RealClock
from tests.support.client.fake_blocking import FakeBlocking
from tests.support.client.fake_cluster import PORT, FakeCluster

ASKED = MetadataRequest(topics=())
# Longer than a busy machine delays a thread.
LONG_MS = 120_000


def connected(cluster: FakeCluster, **options: int) -> tuple[BlockingConnection, FakeBlocking]:
    blocking = FakeBlocking(cluster)
    address = Address("b1", PORT)
    return dial(blocking, blocking.clock, address, ClientOptions(**options)), blocking


def test_responses_may_be_taken_in_any_order() -> None:
    connection, _ = connected(FakeCluster())
    first = connection.send(ASKED)
    second = connection.send(MetadataRequest(topics=None))
    assert connection.answer(second).cluster_id == "the-cluster"
    assert connection.answer(first).cluster_id == "the-cluster"


def test_a_forgotten_response_is_dropped_on_arrival() -> None:
    connection, _ = connected(FakeCluster())
    connection.forget(connection.send(ASKED))
    assert connection.ask(ASKED).cluster_id == "the-cluster"
    early = connection.send(ASKED)
    connection.ask(ASKED)
    connection.forget(early)
    with pytest.raises(TimedOut):
        connection.answer(early)


def test_requests_beyond_the_in_flight_limit_wait_for_responses() -> None:
    connection, _ = connected(FakeCluster(), max_in_flight_requests_per_connection=2)
    numbers = [connection.send(ASKED) for _ in range(7)]
    assert [connection.answer(number).cluster_id for number in numbers] == ["the-cluster"] * 7


def test_a_request_timeout_ends_the_connection() -> None:
    cluster = FakeCluster()
    connection, blocking = connected(cluster, request_timeout_ms=700)
    cluster.brokers[1].answers["Metadata"] = lambda *_: None
    with pytest.raises(TimedOut, match="within 700 ms"):
        connection.ask(ASKED)
    assert not connection.is_open
    assert blocking.streams[0].is_closed
    with pytest.raises(ConnectionLost, match="given up"):
        connection.ask(ASKED)


@pytest.mark.parametrize("when", ["before it is sent", "before it is answered"])
def test_a_broker_that_goes_away_is_a_lost_connection(when: str) -> None:
    connection, blocking = connected(FakeCluster())
    number = connection.send(ASKED)
    blocking.streams[0].is_broken = True
    with pytest.raises(ConnectionLost):
        connection.answer(number) if when == "before it is answered" else connection.ask(ASKED)
    assert not connection.is_open


def test_bytes_that_are_no_response_end_the_connection() -> None:
    connection, blocking = connected(FakeCluster())
    number = connection.send(ASKED)
    blocking.streams[0].coming[:] = b"\x7f\xff\xff\xff"
    with pytest.raises(ConnectionLost, match="no answer"):
        connection.answer(number)


def test_closing_twice_is_closing_once() -> None:
    connection, _ = connected(FakeCluster())
    connection.close()
    connection.close()
    with pytest.raises(ConnectionLost, match="was closed"):
        connection.ask(ASKED)


def test_a_refused_connection_is_unreachable() -> None:
    blocking = FakeBlocking(FakeCluster())
    blocking.away = {"b1"}
    with pytest.raises(Unreachable, match="b1:9092: Connection refused"):
        dial(blocking, blocking.clock, Address("b1", PORT), ClientOptions())


def test_a_broker_that_does_not_answer_apiversions_is_unreachable() -> None:
    cluster = FakeCluster()
    cluster.brokers[1].answers["ApiVersions"] = lambda *_: None
    with pytest.raises(Unreachable, match="did not answer"):
        connected(cluster)


def test_an_old_broker_gets_apiversions_again_in_a_version_that_it_knows() -> None:
    cluster = FakeCluster()
    cluster.brokers[1].versions["ApiVersions"] = (0, 0)
    connection, _ = connected(cluster)
    assert connection.ask(ASKED).cluster_id == "the-cluster"


def test_an_unsupported_api_is_an_error_and_the_connection_stays_open() -> None:
    cluster = FakeCluster()
    cluster.brokers[1].versions["Metadata"] = (99, 99)
    connection, _ = connected(cluster)
    with pytest.raises(UnsupportedByBroker, match="Metadata"):
        connection.ask(ASKED)
    assert connection.is_open


def test_a_real_socket_times_out_and_reports_a_close() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = RealBlocking().dial("127.0.0.1", server.getsockname()[1], LONG_MS)
        accepted, _ = server.accept()
        with pytest.raises(TimeoutError):
            stream.receive(10, 1)
        stream.send([b"ask", b"ed"], LONG_MS)
        assert accepted.recv(10) == b"asked"
        accepted.sendall(b"answer")
        assert stream.receive(10, LONG_MS) == b"answer"
        accepted.close()
        assert stream.receive(10, LONG_MS) == b""
        stream.close()
        stream.close()


def test_a_server_that_closes_at_once_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        hanging_up = threading.Thread(target=lambda: server.accept()[0].close())
        hanging_up.start()
        address = Address("127.0.0.1", server.getsockname()[1])
        options = ClientOptions(socket_connection_setup_timeout_ms=LONG_MS)
        with pytest.raises(Unreachable, match="no Kafka broker answers there"):
            dial(RealBlocking(), RealClock(), address, options)
        hanging_up.join()
