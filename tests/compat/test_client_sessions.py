"""Clients that stay: woken at once, and not confused by restarts or a topic's next life."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Broker
from tests.support.clients.client import WAIT_S, Sent
from tests.support.clients.librdkafka import Librdkafka
from tests.support.clients.sessions import SESSIONS, OpenSession
from tests.support.compat.losing_proxy import LosingProxy
from tests.support.free_port import free_port

# Several attempts to connect, of each of them.
AWAY_S = 1.5

each_session = pytest.mark.parametrize("open_session", SESSIONS.values(), ids=SESSIONS)


@pytest.fixture
def lasting_broker() -> Iterator[Broker]:
    """It keeps its port from one start to the next, and makes no topic unasked."""
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "auto.create.topics.enable": "false",
    }
    with Broker(settings) as running:
        yield running


@each_session
def test_a_waiting_consumer_is_woken_by_the_record_it_waits_for(
    open_session: OpenSession, servers: str, topic: str
) -> None:
    late = threading.Timer(0.5, Librdkafka().write, (servers, topic, [Sent(b"late")]))
    with closing(open_session(servers, topic)) as session:
        session.send(b"first")
        assert session.receive() == b"first"
        late.start()
        # It does not wait for as long as the fetch could be held.
        assert session.receive() == b"late"
    late.join()


@each_session
def test_a_topic_created_again_is_a_new_one_to_clients_of_the_old(
    open_session: OpenSession, lasting_broker: Broker, topic: str
) -> None:
    servers = lasting_broker.bootstrap_servers
    old_id = create(servers, topic)
    with closing(open_session(servers, topic)) as session:
        for number in range(5):
            session.send(b"old %d" % number)
        assert [session.receive() for _ in range(5)] == [b"old %d" % number for number in range(5)]
        delete(servers, topic)
        assert create(servers, topic) != old_id
        session.send(b"new")
        assert session.receive() == b"new"


@each_session
def test_clients_go_on_after_restarts_though_a_new_topic_begins_at_an_earlier_epoch(
    open_session: OpenSession, lasting_broker: Broker, topic: str
) -> None:
    servers = lasting_broker.bootstrap_servers
    create(servers, topic)
    with closing(open_session(servers, topic)) as session:
        for number in range(3):
            session.send(b"life %d" % number)
            assert session.receive() == b"life %d" % number
            lasting_broker.stop()
            lasting_broker.start()
        delete(servers, topic)
        create(servers, topic)
        session.send(b"another topic")
        assert session.receive() == b"another topic"


@each_session
def test_clients_wait_for_a_broker_that_is_away(
    open_session: OpenSession, lasting_broker: Broker, topic: str
) -> None:
    servers = lasting_broker.bootstrap_servers
    create(servers, topic)
    with closing(open_session(servers, topic)) as session:
        session.send(b"before")
        assert session.receive() == b"before"
        lasting_broker.stop()
        time.sleep(AWAY_S)
        lasting_broker.start()
        session.send(b"after")
        assert session.receive() == b"after"


@each_session
def test_records_whose_answer_was_lost_are_there_once(
    open_session: OpenSession, topic: str
) -> None:
    rounds = [[b"%d of round %d" % (number, each) for number in range(20)] for each in range(12)]
    with (
        LosingProxy(lose_every=3) as proxy,
        # The client is told the proxy's address, and so does not go around it.
        Broker({"advertised.listeners": f"PLAINTEXT://{proxy.address}"}) as broker,
    ):
        proxy.forward_to(broker.bootstrap_servers)
        with closing(open_session(proxy.address, topic)) as session:
            for values in rounds:
                session.send(*values)
                assert [session.receive() for _ in values] == values
    assert proxy.lost >= 3


def create(servers: str, topic: str) -> str:
    """The id of the topic that is there on return."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(WAIT_S)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(WAIT_S)
    return str(described.topic_id)


def delete(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(WAIT_S)
