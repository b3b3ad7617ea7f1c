"""Minimal clients of the consumer protocol, with their group and its log."""

from collections.abc import Collection
from dataclasses import dataclass, field

from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.regex import invalid_pattern
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.topics import TopicShape
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.records import Record, decode, encode
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.primitives import Uuid

GROUP = "readers"
REBALANCE_TIMEOUT_MS = 30_000


def topic_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16))


class FakeTopics:
    """Topics that a test creates and deletes."""

    def __init__(self, **counts: int) -> None:
        self.version = 0
        self._made = 0
        self._shapes: dict[str, TopicShape] = {}
        for name, count in counts.items():
            self.create(name, count)

    @property
    def names(self) -> Collection[str]:
        return self._shapes.keys()

    def shape(self, name: str) -> TopicShape | None:
        return self._shapes.get(name)

    def name(self, topic_id: Uuid) -> str | None:
        found = [name for name, shape in self._shapes.items() if shape.topic_id == topic_id]
        return found[0] if found else None

    def create(self, name: str, count: int) -> None:
        self.version += 1
        self._made += 1
        self._shapes[name] = TopicShape(topic_id(self._made), count)

    def grow(self, name: str, count: int) -> None:
        self.version += 1
        self._shapes[name] = self._shapes[name]._replace(partition_count=count)

    def delete(self, name: str) -> None:
        self.version += 1
        del self._shapes[name]

    def partitions(self, names: Collection[str]) -> set[tuple[Uuid, int]]:
        return {
            (shape.topic_id, index)
            for name in names
            if (shape := self._shapes.get(name)) is not None
            for index in range(shape.partition_count)
        }


def match_by_prefix(pattern: str, names: Collection[str]) -> tuple[str, ...]:
    """Stands in for RE2: the only patterns are `PREFIX.*`."""
    if not pattern.endswith(".*"):
        raise invalid_pattern(pattern, "no prefix")
    return tuple(sorted(name for name in names if name.startswith(pattern[:-2])))


Log = list[tuple[bytes, bytes | None]]


def compacted(log: Log) -> Log:
    """The last record of each key, in order, without tombstones."""
    last = {key: place for place, (key, _) in enumerate(log)}
    return [
        (key, value)
        for place, (key, value) in enumerate(log)
        if last[key] == place and value is not None
    ]


class Coordinator:
    """One group, its log and its timers; the test sets the time."""

    def __init__(self, topics: FakeTopics, rules: ConsumerRules | None = None) -> None:
        self.topics = topics
        self.rules = rules or ConsumerRules()
        self.group = ConsumerGroup(GROUP, self.rules)
        self.log: Log = []
        self.timers: dict[str, int] = {}
        self.now_ms = 1_000_000

    def add_member(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """Adds a joining member, whose heartbeat is not decided yet."""
        decision = self.group.add_member(self._beat(request))
        assert not decision.answers
        self._carry_out(decision)

    def send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        decision = self.group.heartbeat(self._beat(request))
        self._carry_out(decision)
        ((ticket, response),) = decision.answers
        assert ticket == 7
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def pass_time(self, passed_ms: int) -> list[str]:
        """Advances the time; returns the keys of the timers that were due."""
        self.now_ms += passed_ms
        due = sorted(key for key, due_ms in self.timers.items() if due_ms <= self.now_ms)
        for key in due:
            if self.timers.pop(key, None) is not None:
                self._carry_out(self.group.timer_expired(key, self.now_ms))
        return due

    def restart(self, cleaned: int = 0) -> None:
        """A new coordinator loads an equal group from the log, after the compaction of its first
        `cleaned` records."""
        self.log = compacted(self.log[:cleaned]) + self.log[cleaned:]
        before = self.group
        self.group = ConsumerGroup(GROUP, self.rules)
        for key, value in self.log:
            record = decode(key, value)
            assert record is not None
            self.group.replay(record)
        assert self.group.saved == before.saved
        self.timers.clear()
        self._carry_out(self.group.loaded(self.now_ms))

    def _beat(self, request: ConsumerGroupHeartbeatRequest) -> Heartbeat:
        return Heartbeat(
            request,
            request.member_id,
            "test",
            "/127.0.0.1",
            7,
            self.now_ms,
            self.topics,
            match_by_prefix,
        )

    def _carry_out(self, decision: Decision) -> None:
        self._append(decision.records)
        for key, due_ms in decision.timers:
            if due_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = due_ms

    def _append(self, records: tuple[Record, ...]) -> None:
        for record in records:
            self.log.append(encode(record))
            self.group.replay(record)


@dataclass
class Client:
    """A consumer that follows its answers, as late as the test wants.

    As real ones it says what it owns after it has done what it was told, or when it says
    everything: after an answer was lost. Then it takes on nothing before it is told again.
    """

    coordinator: Coordinator
    member_id: str
    topics: tuple[str, ...]
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    epoch: int = 0
    owned: set[tuple[Uuid, int]] = field(default_factory=set)
    told: set[tuple[Uuid, int]] | None = None
    must_say_all: bool = True
    must_say_owned: bool = True

    def request(self) -> ConsumerGroupHeartbeatRequest:
        owned: dict[Uuid, list[int]] = {}
        for each, index in sorted(self.owned):
            owned.setdefault(each, []).append(index)
        partitions = tuple(
            TopicPartitions(topic_id=each, partitions=tuple(indexes))
            for each, indexes in owned.items()
        )
        says_all = self.must_say_all or self.epoch == SpecialEpoch.JOIN
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if says_all else -1,
            subscribed_topic_names=self.topics if says_all else None,
            subscribed_topic_regex=self.regex if says_all else None,
            server_assignor=self.assignor if says_all else None,
            topic_partitions=partitions if says_all or self.must_say_owned else None,
        )

    def add_member(self) -> None:
        """Is added to the group; the next `beat` decides its first heartbeat."""
        self.coordinator.add_member(self.request())

    def beat(self, *, is_lost: bool = False) -> ConsumerGroupHeartbeatResponse | None:
        """Sends one heartbeat. If `is_lost`, the client does not get the answer."""
        try:
            response = self.coordinator.send(self.request())
        except PeerError as error:
            if error.code not in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                raise
            self.give_up()
            return None
        if is_lost:
            self.must_say_all, self.told = True, None
            return None
        self.must_say_all = self.must_say_owned = False
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.told = {
                (each.topic_id, index)
                for each in response.assignment.topic_partitions
                for index in each.partitions
            }
        return response

    def reconcile(self) -> None:
        """Revokes and takes on partitions as assigned."""
        if self.told is not None:
            self.owned, self.told, self.must_say_owned = self.told, None, True

    def give_up(self) -> None:
        """It was fenced and has to join again."""
        self.owned, self.told, self.epoch, self.must_say_all = set(), None, 0, True

    def subscribe(self, *topics: str, regex: str | None = None) -> None:
        self.topics, self.regex, self.must_say_all = topics, regex, True

    def leave(self, epoch: int = SpecialEpoch.LEAVE) -> None:
        self.owned, self.told, self.epoch = set(), None, epoch
        try:
            self.coordinator.send(self.request())
        except PeerError as error:
            # The group had removed it before.
            if error.code != ErrorCode.UNKNOWN_MEMBER_ID:
                raise
        self.give_up()
