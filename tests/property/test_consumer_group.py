"""Random clients of a consumer group: no two members ever own the same partition."""

import random
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.group.consumer.heartbeat_request import SpecialEpoch
from ottla.coordinators.group.consumer.rules import ConsumerRules
from tests.support.coordinators.consumer_clients import Client, Coordinator, FakeTopics

NAMES = ("logs", "orders", "orders-eu", "clicks")
STEPS = 120


class World:
    """Clients, topics and a coordinator, and the events that can happen to them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.topics = FakeTopics(logs=3, orders=4)
        rules = ConsumerRules(assignment_interval_ms=self.random.choice((0, 1_000)))
        self.coordinator = Coordinator(self.topics, rules)
        self.clients: list[Client] = []
        self.named = 0

    def step(self) -> None:
        odds = {
            self.join: 4,
            self.beat: 30,
            self.reconcile: 20,
            self.subscribe: 3,
            self.leave: 1,
            self.crash: 1,
            self.pass_time: 8,
            self.change_topics: 3,
            self.restart: 2,
            self.come_back: 2,
        }
        (happen,) = self.random.choices(list(odds), list(odds.values()))
        happen()
        self.check()

    def check(self) -> None:
        for one, other in combinations(self.clients, 2):
            assert one.owned.isdisjoint(other.owned)

    def any_client(self) -> Client | None:
        return self.random.choice(self.clients) if self.clients else None

    # Events

    def join(self) -> None:
        if len(self.clients) >= 5:
            return
        client = Client(self.coordinator, self.new_name(), self.some_topics())
        client.assignor = self.random.choice((None, "range", "uniform"))
        if self.random.random() < 0.3:
            client.instance_id = f"i-{client.member_id}"
        self.clients.append(client)
        if self.random.random() < 0.5:
            client.add_member()

    def beat(self) -> None:
        if client := self.any_client():
            client.beat(is_lost=self.random.random() < 0.15)

    def reconcile(self) -> None:
        if client := self.any_client():
            client.reconcile()

    def subscribe(self) -> None:
        client = self.any_client()
        if client is not None and self.random.random() < 0.3:
            client.subscribe(regex="orders.*")
        elif client is not None:
            client.subscribe(*self.some_topics(), regex="")

    def leave(self) -> None:
        client = self.any_client()
        if client is not None:
            self.clients.remove(client)
            # A client that does not know its membership does not leave.
            if client.epoch > 0:
                client.leave()

    def come_back(self) -> None:
        """A static member leaves, and its instance joins again with another member id."""
        client = self.any_client()
        if client is None or client.instance_id is None or client.epoch <= 0:
            return
        client.leave(SpecialEpoch.LEAVE_STATIC)
        client.member_id = self.new_name()

    def crash(self) -> None:
        if client := self.any_client():
            self.clients.remove(client)

    def pass_time(self) -> None:
        self.pass_ms(self.random.choice((10, 500, 2_000, 20_000)))

    def pass_ms(self, passed_ms: int) -> None:
        due = self.coordinator.pass_time(passed_ms)
        # A client that was silent for that long knows that it was removed.
        for client in self.clients:
            if any(key.endswith(f"/{client.member_id}") for key in due):
                client.give_up()

    def restart(self) -> None:
        self.coordinator.restart(cleaned=self.random.randint(0, len(self.coordinator.log)))

    def change_topics(self) -> None:
        name = self.random.choice(NAMES)
        shape = self.topics.shape(name)
        if shape is None:
            self.topics.create(name, self.random.randint(1, 6))
        elif self.random.random() < 0.5:
            self.topics.grow(name, shape.partition_count + 1)
        else:
            self.topics.delete(name)

    def new_name(self) -> str:
        self.named += 1
        return f"m{self.named}"

    def some_topics(self) -> tuple[str, ...]:
        return tuple(self.random.sample(NAMES, self.random.randint(1, len(NAMES))))

    # Final checks

    def settle(self) -> None:
        # Long enough for the sessions of crashed clients to expire, and for the rebalance after it.
        for _ in range(14):
            for client in self.clients:
                client.beat()
                client.reconcile()
                self.check()
            self.pass_ms(5_000)

    def check_settled(self) -> None:
        subscribed: set[str] = set()
        for client in self.clients:
            names = set(client.topics)
            if client.regex:
                names |= {name for name in self.topics.names if name.startswith("orders")}
            subscribed |= names
            assert client.owned <= self.topics.partitions(names)
        owned = [each for client in self.clients for each in client.owned]
        assert set(owned) == self.topics.partitions(subscribed)
        assert self.coordinator.group.state_name == ("Stable" if self.clients else "Empty")


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.integers(0, 2**32))
def test_no_partition_has_two_owners_and_the_group_settles(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    world.check_settled()
    world.coordinator.restart(cleaned=len(world.coordinator.log))
