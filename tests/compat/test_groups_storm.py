"""One group of every client and of both protocols, through stops, kills and a rolling restart.

Members are stopped (SIGSTOP), killed and replaced while there is something to read, and the broker
is killed under them. Every record is read by somebody, and whenever the group is looked at no
partition has two owners.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.compat.test_broker_kill import BrokerProcess
from tests.compat.test_groups_classic import Group, until
from tests.support.clients.member_process import MemberProcess, member_process
from tests.support.clients.members import COMMIT_MS, HEARTBEAT_MS
from tests.support.compat.java_tools import JARS, JVM, TOOLS

# Whoever is silent for so long is given up: the stopped and the killed, and nobody who is slow.
SESSION_MS = 15_000
SETTINGS = (
    "group.initial.rebalance.delay.ms=200",
    "group.consumer.min.heartbeat.interval.ms=300",
    "group.consumer.heartbeat.interval.ms=300",
    f"group.consumer.min.session.timeout.ms={SESSION_MS}",
    f"group.consumer.session.timeout.ms={SESSION_MS}",
    "group.consumer.assignment.interval.ms=0",
)
JAVAS_NAMES = {
    "range": "RangeAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
Start = Callable[[Group, str], MemberProcess]


def java(group: Group, assignor: str, protocol: str) -> MemberProcess:
    settings = {
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": str(COMMIT_MS),
    }
    if protocol == "classic":
        settings |= {
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": str(HEARTBEAT_MS),
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer."
            + JAVAS_NAMES[assignor],
        }
    said = [f"--command-property={name}={value}" for name, value in settings.items()]
    return MemberProcess(
        [
            *("java", *JVM, "-cp", f"{JARS}/*", f"{TOOLS}.consumer.ConsoleConsumer"),
            *("--bootstrap-server", group.servers, "--topic", group.topic),
            *("--group", group.name, *said),
        ]
    )


def classic_java(group: Group, assignor: str) -> MemberProcess:
    return java(group, assignor, "classic")


def new_java(group: Group, assignor: str) -> MemberProcess:
    return java(group, assignor, "consumer")


def classic_librdkafka(group: Group, assignor: str) -> MemberProcess:
    said = {"partition_assignment_strategy": assignor, "session_timeout_ms": str(SESSION_MS)}
    return member_process("librdkafka", group.servers, group.name, group.topic, **said)


def new_librdkafka(group: Group, assignor: str) -> MemberProcess:
    return member_process(
        "librdkafka", group.servers, group.name, group.topic, group_protocol="consumer"
    )


def kafka_python(group: Group, assignor: str) -> MemberProcess:
    said = {"session_timeout_ms": str(SESSION_MS)}
    return member_process("kafka-python", group.servers, group.name, group.topic, **said)


def aiokafka(group: Group, assignor: str) -> MemberProcess:
    said = {"session_timeout_ms": str(SESSION_MS)}
    return member_process("aiokafka", group.servers, group.name, group.topic, **said)


# By what the classic ones among them assign by.
CASTS: dict[str, tuple[Start, ...]] = {
    "range": (
        aiokafka,
        classic_librdkafka,
        classic_java,
        new_librdkafka,
        new_java,
        kafka_python,
    ),
    "cooperative-sticky": (classic_librdkafka, classic_java, new_librdkafka, new_java),
}


class Storm:
    """The group, all members that it ever had, and all that was written."""

    def __init__(self, group: Group, assignor: str, members: ExitStack) -> None:
        self.group = group
        self.running: dict[Start, MemberProcess] = {}
        self._assignor = assignor
        self._members = members
        self._every: list[MemberProcess] = []
        self._written: set[bytes] = set()

    def start(self, kind: Start) -> None:
        member = self._members.enter_context(closing(kind(self.group, self._assignor)))
        self.running[kind] = member
        self._every.append(member)

    def write(self) -> None:
        self._written |= self.group.write()

    def settle(self, size: int | None = None) -> None:
        self.group.settled(len(self.running) if size is None else size)

    def is_read(self) -> None:
        """Whether every record was read by some member."""
        until(lambda: not self.unread(), self.unread)

    def unread(self) -> set[bytes]:
        return self._written - {value for member in self._every for value in member.values}


@pytest.fixture
def members() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.timeout(900)
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_every_record_is_read_whatever_becomes_of_members_and_broker(
    tmp_path: Path, topic: str, members: ExitStack, assignor: str
) -> None:
    broker = members.enter_context(BrokerProcess(tmp_path, *SETTINGS))
    storm = Storm(Group(broker.servers, topic), assignor, members)
    cast = CASTS[assignor]
    for kind in cast:
        storm.start(kind)
    storm.write()
    storm.settle()
    storm.is_read()

    # Stopped: the others take over what they have, until they are there again.
    stopped = [storm.running[classic_java], storm.running[new_librdkafka]]
    for member in stopped:
        member.stop()
    storm.write()
    storm.settle(len(cast) - len(stopped))
    storm.is_read()
    for member in stopped:
        member.go_on()
    storm.write()
    storm.settle()
    storm.is_read()

    # Killed: nobody says goodbye.
    killed = [kind for kind in (new_java, kafka_python, classic_librdkafka) if kind in cast]
    storm.write()
    for kind in killed:
        storm.running.pop(kind).kill()
    storm.settle()
    storm.is_read()

    # The coordinator is killed: nobody loses what it has. Who has read what was written since then
    # knows what it has, and is not just about to be told.
    storm.write()
    storm.is_read()
    storm.write()
    owners = storm.group.settled(len(storm.running))
    broker.kill_and_restart()
    storm.write()
    storm.is_read()
    assert storm.group.settled(len(storm.running)) == owners

    # Rolled: one after the other is replaced.
    for kind in tuple(storm.running):
        storm.running[kind].close()
        storm.start(kind)
        storm.write()
    storm.settle()
    storm.is_read()
