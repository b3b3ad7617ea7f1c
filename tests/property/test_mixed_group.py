"""Random clients of both protocols in one group: it migrates between the protocols, no two members
ever own the same partition, and the state in memory equals the state replayed from the log.
"""

import random
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.group.consumer.heartbeat_request import SpecialEpoch
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.group import GroupType
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.support.coordinators.consumer_clients import Client, FakeTopics
from tests.support.coordinators.mixed_clients import (
    COOPERATIVE,
    EAGER,
    ClassicClient,
    MixedCoordinator,
)

NAMES = ("logs", "orders", "clicks")
STEPS = 150
LOST = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID)


class NewClient(Client):
    """A client of the consumer protocol, whose group may be classic in the meantime."""

    def act(self, *, is_lost: bool = False) -> ConsumerGroupHeartbeatResponse | None:
        try:
            return self.beat(is_lost=is_lost)
        except PeerError as error:
            if error.code not in LOST:
                raise
            self.give_up()
            return None

    def go(self, epoch: int = SpecialEpoch.LEAVE) -> None:
        try:
            self.leave(epoch)
        except PeerError as error:
            if error.code not in LOST:
                raise
            self.give_up()


Any = NewClient | ClassicClient


class World:
    """Clients of both protocols, topics and a coordinator, and the events that may happen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.topics = FakeTopics(logs=3, orders=4)
        interval_ms = self.random.choice((0, 1_000))
        rules = ConsumerRules(assignment_interval_ms=interval_ms, session_timeout_ms=10_000)
        self.coordinator = MixedCoordinator(self.topics, rules)
        # Eager and cooperative members have no protocol in common.
        self.protocol = self.random.choice((EAGER, COOPERATIVE))
        self.clients: list[Any] = []
        self.named = 0
        self.moves = 0

    def step(self) -> None:
        odds = {
            self.join_new: 2,
            self.join_classic: 3,
            self.act: 40,
            self.reconcile: 15,
            self.leave: 3,
            self.crash: 1,
            self.come_back: 2,
            self.pass_time: 8,
            self.change_topics: 2,
            self.restart: 1,
        }
        (happen,) = self.random.choices(list(odds), list(odds.values()))
        before = self.kind()
        happen()
        self.moves += before is not None and self.kind() not in (before, None)
        self.check()

    def kind(self) -> GroupType | None:
        return self.coordinator.group.group_type if self.coordinator.group else None

    def check(self) -> None:
        self.coordinator.check_replayed()
        for one, other in combinations(self.clients, 2):
            assert one.owned.isdisjoint(other.owned), (one, other)

    def any_client(self) -> Any | None:
        return self.random.choice(self.clients) if self.clients else None

    # Events

    def join_new(self) -> None:
        if len(self.clients) < 5:
            client = NewClient(self.coordinator, self.new_name(), self.some_topics())  # type: ignore[arg-type]
            client.instance_id = self.some_instance()
            self.clients.append(client)

    def join_classic(self) -> None:
        if len(self.clients) < 5:
            client = ClassicClient(
                self.coordinator, self.new_name(), self.some_topics(), self.protocol
            )
            client.instance_id = self.some_instance()
            self.clients.append(client)

    def act(self) -> None:
        client = self.any_client()
        if isinstance(client, NewClient):
            client.act(is_lost=self.random.random() < 0.1)
        elif client is not None:
            client.act()

    def reconcile(self) -> None:
        client = self.any_client()
        if isinstance(client, NewClient):
            client.reconcile()

    def leave(self) -> None:
        client = self.any_client()
        if client is None:
            return
        self.clients.remove(client)
        if isinstance(client, NewClient):
            if client.epoch > 0:
                client.go()
        elif client.member_id:
            client.leave()
        else:
            client.hang_up()

    def crash(self) -> None:
        if client := self.any_client():
            self.clients.remove(client)
            if isinstance(client, ClassicClient):
                client.hang_up()

    def come_back(self) -> None:
        """A static member leaves; its instance joins again by the same or the other protocol."""
        client = self.any_client()
        if client is None or client.instance_id is None:
            return
        self.clients.remove(client)
        if isinstance(client, NewClient):
            if client.epoch <= 0:
                return
            client.go(SpecialEpoch.LEAVE_STATIC)
        else:
            client.hang_up()
        again: Any
        if self.random.random() < 0.5:
            again = NewClient(self.coordinator, self.new_name(), client.topics)  # type: ignore[arg-type]
        else:
            again = ClassicClient(self.coordinator, self.new_name(), client.topics, self.protocol)
        again.instance_id = client.instance_id
        self.clients.append(again)

    def pass_time(self) -> None:
        self.pass_ms(self.random.choice((10, 500, 2_000, 9_000)))

    def pass_ms(self, passed_ms: int) -> None:
        before = self.members()
        self.coordinator.pass_time(passed_ms)
        # A client that missed a deadline knows that it was removed.
        gone = before - self.members()
        for client in self.clients:
            if client.member_id in gone:
                client.give_up()

    def members(self) -> set[str]:
        match self.kind():
            case GroupType.CONSUMER:
                return set(self.coordinator.consumer.saved.members)
            case GroupType.CLASSIC:
                return {member.member_id for member in self.coordinator.classic.roster}
            case _:
                return set()

    def restart(self) -> None:
        self.coordinator.restart(cleaned=self.random.randint(0, len(self.coordinator.log)))
        for client in self.clients:
            if isinstance(client, ClassicClient) and client.waits_for:
                # Its connection broke: it retries.
                client.waits_for, client.is_to_join = "", True

    def change_topics(self) -> None:
        name = self.random.choice(NAMES)
        shape = self.topics.shape(name)
        if shape is None:
            self.topics.create(name, self.random.randint(1, 4))
        elif shape.partition_count < 6:
            self.topics.grow(name, shape.partition_count + 1)

    def new_name(self) -> str:
        self.named += 1
        return f"m{self.named}"

    def some_topics(self) -> tuple[str, ...]:
        return tuple(self.random.sample(NAMES, self.random.randint(1, len(NAMES))))

    def some_instance(self) -> str | None:
        return f"i{self.named}" if self.random.random() < 0.3 else None

    # Final checks

    def settle(self) -> None:
        # Long enough for the sessions of crashed clients to expire, and for the rebalance after it.
        for _ in range(30):
            for client in self.clients:
                client.act()
                if isinstance(client, NewClient):
                    client.reconcile()
                self.check()
            self.pass_ms(3_000)

    def check_settled(self) -> None:
        subscribed = {name for client in self.clients for name in client.topics}
        for client in self.clients:
            assert client.owned <= self.topics.partitions(client.topics)
        owned = {each for client in self.clients for each in client.owned}
        assert owned == self.topics.partitions(subscribed)
        has_new = any(isinstance(client, NewClient) for client in self.clients)
        if self.clients:
            assert self.kind() is (GroupType.CONSUMER if has_new else GroupType.CLASSIC)


@settings(derandomize=True, deadline=None, max_examples=120)
@given(st.integers(0, 2**32))
def test_a_group_migrates_and_no_partition_has_two_owners(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    world.check_settled()
    world.restart()
    world.check()


def test_groups_migrate_in_these_scenarios() -> None:
    moves = 0
    for seed in range(20):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        moves += world.moves
    assert moves >= 40
