"""Classic groups with the clients that people have: librdkafka, kafka-python, aiokafka and Java's
own, all in one group."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
)
from confluent_kafka.admin import AdminClient

from ottla.testing import Broker
from tests.compat.test_broker_kill import BrokerProcess
from tests.support.clients.admins import LibrdkafkaAdmin
from tests.support.clients.client import WAIT_S
from tests.support.clients.members import (
    AioKafkaMember,
    GroupMember,
    JavaMember,
    KafkaPythonMember,
    LibrdkafkaMember,
)
from tests.support.free_port import free_port

PARTITIONS = 10
# kafka-python is not among them: how it waits for a broker is in `test_client_sessions`.
SURVIVORS = (LibrdkafkaMember, AioKafkaMember, LibrdkafkaMember)
# A group that changes its protocol is, between two questions, of neither.
NOT_NOW = {
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
Owners = dict[str, list[int]]


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with short rebalance delays."""
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "group.initial.rebalance.delay.ms": "200",
    }
    with Broker(settings) as running:
        yield running


@pytest.fixture
def members() -> Iterator[ExitStack]:
    """The members of a test, closed in the end."""
    with ExitStack() as stack:
        yield stack


class Group:
    """A group as the broker describes it, and the topic that it reads."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers, self.topic, self.name = servers, topic, f"readers of {topic}"
        LibrdkafkaAdmin(servers).create(topic, PARTITIONS, {})
        self._producer = Producer({"bootstrap.servers": servers})
        self._sent = 0

    def write(self, amount: int = 200) -> set[bytes]:
        """That many records to all partitions in turn; their values."""
        values = set()
        for _ in range(amount):
            value = b"value %d" % self._sent
            self._producer.produce(self.topic, value, partition=self._sent % PARTITIONS)
            values.add(value)
            self._sent += 1
        assert self._producer.flush(WAIT_S) == 0
        return values

    def owners(self) -> Owners | None:
        """The partitions by member, if the group is stable now."""
        # A new one each time: after a restart librdkafka's asks the connection that is gone.
        admin = AdminClient({"bootstrap.servers": self.servers})
        try:
            described = admin.describe_consumer_groups([self.name])[self.name].result(WAIT_S)
        except KafkaException as error:
            if error.args[0].code() not in NOT_NOW:
                raise
            return None
        if described.state is not ConsumerGroupState.STABLE:
            return None
        return {
            member.member_id: sorted(
                each.partition for each in (member.assignment.topic_partitions or ())
            )
            for member in described.members
        }

    def committed(self) -> int:
        """How many records the group has done with, of all partitions."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        asked = [ConsumerGroupTopicPartitions(self.name)]
        found = admin.list_consumer_group_offsets(asked)[self.name].result(WAIT_S)
        return sum(each.offset for each in found.topic_partitions if each.offset > 0)

    def settled(self, size: int) -> Owners:
        """The owners, once there are so many and every partition has one. Never has it two."""
        found: list[Owners] = []

        def is_settled() -> bool:
            owners = self.owners()
            if owners is None:
                return False
            owned = sorted(index for mine in owners.values() for index in mine)
            assert len(owned) == len(set(owned)), owners
            found.append(owners)
            return len(owners) == size and owned == list(range(PARTITIONS))

        until(is_settled)
        return found[-1]


def until(is_so: Callable[[], bool], told: Callable[[], object] = lambda: None) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)


def read_by(values: set[bytes], *readers: GroupMember) -> None:
    """Waits until the readers have read all of these among them."""
    until(lambda: values <= {value for reader in readers for value in reader.values})


@pytest.fixture
def group(broker: Broker, topic: str) -> Group:
    return Group(broker.bootstrap_servers, topic)


def test_five_clients_of_four_kinds_share_a_group_lose_one_and_are_all_replaced(
    group: Group, members: ExitStack
) -> None:
    kinds: list[Callable[[str, str, str], GroupMember]] = [
        LibrdkafkaMember,
        KafkaPythonMember,
        AioKafkaMember,
        JavaMember,
        LibrdkafkaMember,
    ]

    def start(kind: Callable[[str, str, str], GroupMember]) -> GroupMember:
        return members.enter_context(closing(kind(group.servers, group.name, group.topic)))

    first = [start(kind) for kind in kinds]
    owners = group.settled(5)
    assert {len(owned) for owned in owners.values()} == {2}
    read_by(group.write(), *first)
    assert all(member.values for member in first)
    first[0].close()
    group.settled(4)
    read_by(group.write(), *first)
    second = []
    for kind, old in zip(kinds, first, strict=True):
        second.append(start(kind))
        old.close()
    later = group.settled(5)
    assert not owners.keys() & later.keys()
    read_by(group.write(), *second)


@pytest.mark.parametrize("kind", [LibrdkafkaMember, KafkaPythonMember, AioKafkaMember, JavaMember])
def test_a_client_leaves_when_it_is_closed_and_the_next_goes_on_where_it_stopped(
    kind: Callable[[str, str, str], GroupMember], group: Group, members: ExitStack
) -> None:
    before = group.write()
    first = members.enter_context(closing(kind(group.servers, group.name, group.topic)))
    read_by(before, first)
    # Not only when a consumer closes: commits are made now and then.
    until(lambda: group.committed() == len(before))
    first.close()
    until(lambda: group.owners() is None)
    after = group.write()
    second = members.enter_context(closing(kind(group.servers, group.name, group.topic)))
    read_by(after, second)
    assert set(second.values) == after


def test_a_static_member_that_restarts_rebalances_nothing(group: Group, members: ExitStack) -> None:
    def start(name: str) -> LibrdkafkaMember:
        member = LibrdkafkaMember(
            group.servers, group.name, group.topic, group_instance_id=name, client_id=name
        )
        return members.enter_context(closing(member))

    stays, restarts = start("a"), start("b")
    owners = group.settled(2)
    read_by(group.write(), stays, restarts)
    seen = list(stays.rebalances)
    restarts.close()
    again = start("b")
    read_by(group.write(), stays, again)
    later = group.settled(2)
    assert sorted(owners.values()) == sorted(later.values())
    assert len(owners.keys() & later.keys()) == 1
    assert stays.rebalances == seen


def test_cooperative_members_keep_their_partitions_in_a_rebalance(
    group: Group, members: ExitStack
) -> None:
    def start() -> LibrdkafkaMember:
        member = LibrdkafkaMember(
            group.servers,
            group.name,
            group.topic,
            partition_assignment_strategy="cooperative-sticky",
        )
        return members.enter_context(closing(member))

    first = start()
    group.settled(1)
    second = start()
    owners = group.settled(2)
    assert {len(owned) for owned in owners.values()} == {PARTITIONS // 2}
    read_by(group.write(), first, second)
    taken = [index for what, indexes in first.rebalances if what == "taken" for index in indexes]
    assert len(taken) == PARTITIONS // 2


def test_members_go_on_after_their_coordinator_restarts(
    broker: Broker, group: Group, members: ExitStack
) -> None:
    readers: list[GroupMember] = [
        members.enter_context(closing(kind(group.servers, group.name, group.topic)))
        for kind in SURVIVORS
    ]
    group.settled(len(SURVIVORS))
    read_by(group.write(), *readers)
    broker.stop()
    broker.start()
    read_by(group.write(), *readers)
    group.settled(len(SURVIVORS))


def test_a_killed_coordinator_comes_back_with_the_same_generation(
    tmp_path: Path, topic: str, members: ExitStack
) -> None:
    broker = members.enter_context(BrokerProcess(tmp_path))
    group = Group(broker.servers, topic)
    readers: list[GroupMember] = [
        members.enter_context(closing(kind(group.servers, group.name, group.topic)))
        for kind in SURVIVORS
    ]
    owners = group.settled(len(SURVIVORS))
    read_by(group.write(), *readers)
    broker.kill_and_restart()
    read_by(group.write(), *readers)
    assert group.settled(len(SURVIVORS)) == owners
