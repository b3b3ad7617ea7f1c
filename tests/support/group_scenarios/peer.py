"""Sends raw requests about one group to a broker, and notes the responses in order."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Any, Self

from ottla.client.blocking.connection import BlockingConnection, dial
from ottla.client.connection.bootstrap import parse_addresses
from ottla.client.options import ClientOptions
from ottla.errors import ErrorCode
from ottla.protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from ottla.protocol.primitives import Uuid
from ottla.seams.blocking import RealBlocking
from ottla.seams.clock import RealClock

WAIT_S = 120.0
# Longer than a scene takes, on whatever machine.
SESSION_MS = 120_000
Answers = list[tuple[str, object]]


class Pending:
    """A request that may have to wait for others, on a connection of its own."""

    def __init__(self, connection: BlockingConnection, number: int) -> None:
        self._connection, self._number = connection, number

    def answer(self) -> Any:
        return self._connection.answer(self._number)


class Peer:
    """`answers` are the noted responses: the same for every broker that behaves like Kafka."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        (self._address,) = parse_addresses(servers)
        self.group, self.topic = group, topic
        self.answers: Answers = []
        self._open = ExitStack()
        self._main = self._dial()
        self._numbers = itertools.count()
        self.topic_id: Uuid = self._topic_id()
        self._until_coordinator_is_there()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.close()

    # Asking

    def ask(self, request: object, version: int | None = None) -> Any:
        return self._main.ask(request, version_max=version)

    def send(self, request: object, version: int | None = None) -> Pending:
        connection = self._dial()
        return Pending(connection, connection.send(request, version_max=version))

    def note(self, what: str, *seen: object) -> None:
        self.answers.append((what, seen[0] if len(seen) == 1 else seen))

    def try_out(self, what: str, request: object, version: int | None = None) -> Any:
        """Asks, and notes the codes that were answered."""
        answer = self.ask(request, version)
        told = [ErrorCode(code).name for code in codes(answer)]
        assert told, answer
        self.note(what, *told)
        return answer

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < deadline, self.answers
            time.sleep(0.05)

    def _dial(self) -> BlockingConnection:
        connection = dial(RealBlocking(), RealClock(), self._address, ClientOptions())
        return self._open.enter_context(closing(connection))

    def _topic_id(self) -> Uuid:
        """Once the broker has heard that there is the topic: its controller is ahead of it."""
        asked = metadata.MetadataRequest(topics=(metadata.RequestedTopic(name=self.topic),))
        self.until(lambda: self.ask(asked).topics[0].error_code == ErrorCode.NONE)
        (topic,) = self.ask(asked).topics
        topic_id: Uuid = topic.topic_id
        return topic_id

    def _until_coordinator_is_there(self) -> None:
        """Asking for it makes the offsets topic, which is loaded then."""
        find = find_coordinator.FindCoordinatorRequest(coordinator_keys=(self.group,))
        passing = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        passing.add(ErrorCode.NOT_COORDINATOR)
        asked = offset_fetch.OffsetFetchRequest(
            groups=(offset_fetch.Group(group_id=self.group, topics=None),)
        )

        def is_there() -> bool:
            return not passing & {*codes(self.ask(find)), *codes(self.ask(asked, 9))}

        self.until(is_there)

    # Requests of the classic protocol

    def join(self, member_id: str = "", **other: Any) -> join_group.JoinGroupRequest:
        """As the consumers of this topic join."""
        said: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": self.protocols("range"),
        }
        return join_group.JoinGroupRequest(**said | other)

    def protocols(self, *names: str, owned: tuple[int, ...] = ()) -> tuple[Any, ...]:
        subscription = subscribed(self.topic, owned)
        return tuple(join_group.Protocol(name=name, metadata=subscription) for name in names)

    def sync(
        self, member_id: str, generation: int, given: dict[str, bytes] | None = None, **other: Any
    ) -> sync_group.SyncGroupRequest:
        assigned = [
            sync_group.Assignment(member_id=each, assignment=partitions)
            for each, partitions in (given or {}).items()
        ]
        said: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": generation,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": tuple(assigned),
        }
        return sync_group.SyncGroupRequest(**said | other)

    def beat(self, member_id: str, generation: int, **other: Any) -> heartbeat.HeartbeatRequest:
        said: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": generation,
            "member_id": member_id,
        }
        return heartbeat.HeartbeatRequest(**said | other)

    def leave(self, *members: tuple[str, str | None]) -> leave_group.LeaveGroupRequest:
        leaving = tuple(
            leave_group.Member(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in members
        )
        return leave_group.LeaveGroupRequest(group_id=self.group, members=leaving)

    def settle(self, *, instance_id: str | None = None, **other: Any) -> Any:
        """A single member joins and assigns itself everything; the response to its join."""
        request = self.join(group_instance_id=instance_id, **other)
        joined = self.ask(request, 5 if instance_id else 3)
        assert joined.error_code == ErrorCode.NONE, joined
        given = {joined.member_id: assigned(self.topic, (0, 1))}
        synced = self.ask(self.sync(joined.member_id, joined.generation_id, given), 3)
        assert synced.error_code == ErrorCode.NONE, synced
        return joined

    # Requests of the consumer protocol

    def pulse(
        self, member_id: str, epoch: int, **other: Any
    ) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
        said: dict[str, Any] = {
            "group_id": self.group,
            "member_id": member_id,
            "member_epoch": epoch,
        }
        return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(**said | other)

    def enter(
        self, member_id: str, **other: Any
    ) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
        """Joins with a subscription to the topic."""
        said: dict[str, Any] = {
            "rebalance_timeout_ms": SESSION_MS,
            "subscribed_topic_names": (self.topic,),
            "topic_partitions": (),
        }
        return self.pulse(member_id, 0, **said | other)

    def owning(self, *indexes: int) -> tuple[consumer_group_heartbeat.TopicPartitions, ...]:
        own = consumer_group_heartbeat.TopicPartitions(topic_id=self.topic_id, partitions=indexes)
        return (own,)

    # Requests about offsets and about groups

    def commit(
        self, member_id: str = "", generation: int = -1, **other: Any
    ) -> offset_commit.OffsetCommitRequest:
        """Of one partition: of another topic, or with something else, if it is said."""
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        partition |= {name: other.pop(name) for name in tuple(partition) if name in other}
        topic = other.pop("topic", self.topic)
        said: dict[str, Any] = {
            "group_id": self.group,
            "member_id": member_id,
            "generation_id_or_member_epoch": generation,
            "topics": (
                offset_commit.Topic(
                    name=topic,
                    topic_id=other.pop("topic_id", self.topic_id),
                    partitions=(offset_commit.Partition(**partition),),
                ),
            ),
        }
        return offset_commit.OffsetCommitRequest(**said | other)

    def fetch(
        self, member_id: str | None = None, epoch: int = -1, **other: Any
    ) -> offset_fetch.OffsetFetchRequest:
        said: dict[str, Any] = {
            "group_id": self.group,
            "member_id": member_id,
            "member_epoch": epoch,
            "topics": (offset_fetch.Topic(name=self.topic, partition_indexes=(0,)),),
        }
        return offset_fetch.OffsetFetchRequest(groups=(offset_fetch.Group(**said | other),))

    def forget(self, topic: str | None = None) -> offset_delete.OffsetDeleteRequest:
        partitions = (offset_delete.Partition(partition_index=0),)
        wish = offset_delete.Topic(name=topic or self.topic, partitions=partitions)
        return offset_delete.OffsetDeleteRequest(group_id=self.group, topics=(wish,))

    def delete(self) -> delete_groups.DeleteGroupsRequest:
        return delete_groups.DeleteGroupsRequest(groups_names=(self.group,))

    def describe(self) -> describe_groups.DescribeGroupsRequest:
        return describe_groups.DescribeGroupsRequest(groups=(self.group,))

    def describe_consumer(self) -> consumer_group_describe.ConsumerGroupDescribeRequest:
        return consumer_group_describe.ConsumerGroupDescribeRequest(
            group_ids=(self.group,), include_authorized_operations=False
        )

    def standing(self) -> tuple[str, str] | None:
        """The group's type and state, as ListGroups shows them; None if it is not listed."""
        asked = list_groups.ListGroupsRequest(states_filter=(), types_filter=())
        for each in self.ask(asked).groups:
            if each.group_id == self.group:
                # Kafka spells its types with capitals in some versions.
                return each.group_type.lower(), each.group_state
        return None


def codes(answer: object) -> Iterator[int]:
    """All that there are in an answer, from the outside in."""
    if isinstance(answer, tuple):
        for each in answer:
            yield from codes(each)
        return
    names = getattr(type(answer), "__slots__", ())
    if "error_code" in names:
        yield answer.error_code  # type: ignore[attr-defined]
    for name in names:
        yield from codes(getattr(answer, name))


def subscribed(topic: str, owned: tuple[int, ...] = ()) -> bytes:
    """A consumer's subscription in version 1, with its owned partitions."""
    name = len(topic).to_bytes(2) + topic.encode()
    subscription = (1).to_bytes(2) + (1).to_bytes(4) + name + (0xFFFFFFFF).to_bytes(4)
    return subscription + (_partitions(topic, owned) if owned else (0).to_bytes(4))


def assigned(topic: str, indexes: tuple[int, ...], user_data: bytes | None = None) -> bytes:
    """A consumer's assignment in version 1."""
    own = (0xFFFFFFFF).to_bytes(4)
    if user_data is not None:
        own = len(user_data).to_bytes(4) + user_data
    return (1).to_bytes(2) + _partitions(topic, indexes) + own


def assigned_count(assignment: bytes) -> int:
    """How many partitions of one topic an assignment has."""
    if int.from_bytes(assignment[2:6]) == 0:
        return 0
    at = 8 + int.from_bytes(assignment[6:8])
    return int.from_bytes(assignment[at : at + 4])


def _partitions(topic: str, indexes: tuple[int, ...]) -> bytes:
    named = len(topic).to_bytes(2) + topic.encode()
    listed = b"".join(index.to_bytes(4) for index in indexes)
    return (1).to_bytes(4) + named + len(indexes).to_bytes(4) + listed
