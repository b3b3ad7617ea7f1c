"""Groups of the consumer protocol (KIP-848), with librdkafka and with Java's own client."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaError, Message
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.testing import Broker
from tests.support.clients.admins import LibrdkafkaAdmin
from tests.support.clients.client import WAIT_S, numbered
from tests.support.clients.librdkafka import Librdkafka
from tests.support.compat.java_tools import run_tool
from tests.support.free_port import free_port

GROUP = "readers"
PARTITIONS = 4
# The client looks for a coordinator that is not ready yet, and finds it later.
PASSING = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with short heartbeat intervals, so that tests are fast."""
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.assignment.interval.ms": "0",
    }
    with Broker(settings) as running:
        yield running


@pytest.fixture
def members() -> Iterator[ExitStack]:
    """The consumers of a test, closed in the end."""
    with ExitStack() as stack:
        yield stack


def member(members: ExitStack, servers: str, *topics: str, **settings: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": GROUP,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    consumer.subscribe(list(topics))
    return members.enter_context(closing(consumer))


def until(is_so: Callable[[], bool], *consumers: Consumer) -> None:
    """Polls until the condition holds, and ignores the records."""
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, [shares(each) for each in consumers]
        for consumer in consumers:
            poll(consumer, 0.02)


def read(amount: int, *consumers: Consumer, commits: bool = False) -> list[bytes]:
    """The values of that many records, in the order in which they came."""
    found: list[bytes] = []

    def take(consumer: Consumer) -> None:
        message = poll(consumer, 0.1) if len(found) < amount else None
        if message is not None:
            found.append(message.value() or b"")
            if commits:
                consumer.commit(message, asynchronous=False)

    deadline = time.monotonic() + WAIT_S
    while len(found) < amount:
        assert time.monotonic() < deadline, found
        for consumer in consumers:
            take(consumer)
    return found


def poll(consumer: Consumer, wait_s: float) -> Message | None:
    message = consumer.poll(wait_s)
    if message is not None and message.error() is not None:
        assert message.error().code() in PASSING, message.error()
        return None
    return message


def shares(consumer: Consumer) -> list[int]:
    return sorted(each.partition for each in consumer.assignment())


def are_shared(*sizes: int) -> Callable[..., bool]:
    """Whether the consumers have that many each, and all partitions together."""

    def check(*consumers: Consumer) -> bool:
        owned = [shares(each) for each in consumers]
        every = sorted(index for mine in owned for index in mine)
        return sorted(map(len, owned)) == sorted(sizes) and every == list(range(PARTITIONS))

    return check


def test_partitions_are_shared_handed_over_and_taken_back(
    broker: Broker, topic: str, members: ExitStack
) -> None:
    servers = broker.bootstrap_servers
    LibrdkafkaAdmin(servers).create(topic, PARTITIONS, {})
    first = member(members, servers, topic)
    until(lambda: are_shared(4)(first), first)
    second = member(members, servers, topic)
    until(lambda: are_shared(2, 2)(first, second), first, second)
    third = member(members, servers, topic)
    until(lambda: are_shared(1, 1, 2)(first, second, third), first, second, third)
    kept = shares(third)
    first.close()
    until(lambda: are_shared(2, 2)(second, third), second, third)
    assert set(kept) <= set(shares(third))
    second.close()
    until(lambda: are_shared(4)(third), third)


def test_reading_goes_on_where_the_group_committed_also_after_a_restart(
    broker: Broker, topic: str, members: ExitStack
) -> None:
    servers = broker.bootstrap_servers
    sent = numbered(40)
    Librdkafka().write(servers, topic, sent)
    first = member(members, servers, topic)
    found = read(25, first, commits=True)
    first.close()
    broker.stop()
    broker.start()
    second = member(members, servers, topic)
    found += read(15, second)
    assert found == [each.value for each in sent]


def test_members_keep_their_partitions_over_a_restart_of_the_broker(
    broker: Broker, topic: str, members: ExitStack
) -> None:
    servers = broker.bootstrap_servers
    LibrdkafkaAdmin(servers).create(topic, PARTITIONS, {})
    both = [member(members, servers, topic) for _ in range(2)]
    until(lambda: are_shared(2, 2)(*both), *both)
    before = [shares(each) for each in both]
    broker.stop()
    broker.start()
    Librdkafka().write(servers, topic, numbered(5))
    assert len(read(5, *both)) == 5
    assert [shares(each) for each in both] == before


def test_a_static_member_that_rejoins_in_time_keeps_its_assignment(
    broker: Broker, topic: str, members: ExitStack
) -> None:
    servers = broker.bootstrap_servers
    LibrdkafkaAdmin(servers).create(topic, PARTITIONS, {})
    first = member(members, servers, topic, group_instance_id="one")
    second = member(members, servers, topic, group_instance_id="two")
    until(lambda: are_shared(2, 2)(first, second), first, second)
    before, others = shares(first), shares(second)
    first.close()
    again = member(members, servers, topic, group_instance_id="one")
    until(lambda: are_shared(2, 2)(again, second), again, second)
    assert (shares(again), shares(second)) == (before, others)


def test_new_partitions_reach_members_by_themselves(
    broker: Broker, topic: str, members: ExitStack
) -> None:
    servers = broker.bootstrap_servers
    LibrdkafkaAdmin(servers).create(topic, 1, {})
    consumer = member(members, servers, topic, topic_metadata_refresh_interval_ms="500")
    until(lambda: shares(consumer) == [0], consumer)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, PARTITIONS)])[topic].result(WAIT_S)
    until(lambda: shares(consumer) == list(range(PARTITIONS)), consumer)


def test_a_pattern_is_resolved_by_the_broker(
    broker: Broker, topic: str, members: ExitStack
) -> None:
    servers = broker.bootstrap_servers
    LibrdkafkaAdmin(servers).create(topic, 2, {})
    consumer = member(members, servers, f"^{topic[:-1]}.*")
    until(lambda: shares(consumer) == [0, 1], consumer)


def test_a_group_is_described_and_listed_by_both_clients(
    broker: Broker, topic: str, members: ExitStack
) -> None:
    servers = broker.bootstrap_servers
    LibrdkafkaAdmin(servers).create(topic, PARTITIONS, {})
    both = [member(members, servers, topic, client_id=f"c{number}") for number in range(2)]
    until(lambda: are_shared(2, 2)(*both), *both)
    admin = AdminClient({"bootstrap.servers": servers})

    def described() -> bool:
        group = admin.describe_consumer_groups([GROUP])[GROUP].result(WAIT_S)
        assert group.type is ConsumerGroupType.CONSUMER
        assert {each.client_id for each in group.members} == {"c0", "c1"}
        return group.state is ConsumerGroupState.STABLE

    until(described, *both)
    tool = ("consumer.group.ConsumerGroupCommand", "--bootstrap-server", servers)
    printed = run_tool(*tool, "--describe", "--group", GROUP, "--members", "--verbose").decode()
    assert printed.count(f"{topic}:") == 4, printed
    assert f"{GROUP} " in run_tool(*tool, "--list", "--type").decode()


def test_java_reads_commits_and_goes_on_later_by_another_client(
    broker: Broker, topic: str, members: ExitStack
) -> None:
    servers = broker.bootstrap_servers
    sent = numbered(30)
    Librdkafka().write(servers, topic, sent)
    printed = run_tool(
        "consumer.ConsoleConsumer",
        *("--bootstrap-server", servers, "--topic", topic, "--group", GROUP, "--from-beginning"),
        *("--command-property", "group.protocol=consumer"),
        *("--max-messages", "20", "--timeout-ms", "120000"),
    )
    assert printed.splitlines() == [each.value for each in sent[:20]]
    rest = member(members, servers, topic)
    assert read(10, rest) == [each.value for each in sent[20:]]
