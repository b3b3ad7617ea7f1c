"""A classic group keeps its invariants under random requests, pauses and restarts.

Members make the mistakes of real ones: they send late heartbeats, use old generations, give up
waiting, and use ids that others have taken over. After every step the state in memory equals the
state replayed from the log, no member waits twice, and a generation has one leader and one
assignment. In the end all remaining members are served.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.coordinators.group.records import ClassicGroupSaved
from ottla.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse
from tests.support.coordinators.classic_group import CLASSIC_RULES, SESSION_MS, Bench, Ticket

CLIENTS = 5
PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"))


@dataclass
class Client:
    """A consumer. After a crash a static one rejoins with its instance id, others are new."""

    instance_id: str | None
    version: int
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    members: tuple[str, ...] = ()
    joining: Ticket | None = None
    syncing: Ticket | None = None


class World:
    def __init__(self) -> None:
        self.bench = Bench(CLASSIC_RULES._replace(members_max=4))
        self.clients = [
            Client(f"i{n}" if n % 2 else None, version=(3, 5, 9)[n % 3]) for n in range(CLIENTS)
        ]
        # The leader and the assignment of each generation since the last load (the next coordinator
        # does not know a generation that was not saved).
        self.leaders: dict[int, str] = {}
        self.assignments: dict[int, dict[str, bytes]] = {}

    # Events

    def join(self, client: Client, choice: int) -> None:
        client.joining = self.bench.join(
            client.member_id,
            instance_id=client.instance_id if client.version >= 5 else None,
            version=client.version,
            protocols=PROTOCOLS[choice % len(PROTOCOLS)],
            metadata=bytes([choice % 2]),
        )

    def sync(self, client: Client, choice: int) -> None:
        assigned: dict[str, bytes] = {}
        if client.is_leader:
            assigned = {member_id: f"{choice}:{member_id}".encode() for member_id in client.members}
        client.syncing = self.bench.sync(client.member_id, assigned, generation=client.generation)

    def beat(self, client: Client, choice: int) -> None:
        self.bench.beat(client.member_id, generation=client.generation - (choice == 0))

    def leave(self, client: Client, choice: int) -> None:
        by_instance = choice % 2 and client.instance_id
        self.bench.leave(("" if by_instance else client.member_id, client.instance_id))

    def crash(self, client: Client, choice: int) -> None:
        """It forgets its state and gets no more answers."""
        client.member_id, client.generation, client.is_leader = "", -1, False
        client.joining = client.syncing = None

    def wait(self, client: Client, choice: int) -> None:
        self.bench.pass_ms(choice * SESSION_MS // 5)

    def restart(self, client: Client, choice: int) -> None:
        self.bench.restart()
        self.leaders.clear()
        for each in self.clients:
            each.joining = each.syncing = None

    # Answers

    def receive(self) -> None:
        for client in self.clients:
            if client.joining in self.bench.answers:
                self._receive_join(client, self.bench.answers[client.joining])
                client.joining = None
            if client.syncing in self.bench.answers:
                self._receive_sync(client, self.bench.answers[client.syncing])
                client.syncing = None

    def _receive_join(self, client: Client, answer: object) -> None:
        if not isinstance(answer, JoinGroupResponse):
            client.member_id = ""
        elif answer.error_code == ErrorCode.NONE:
            client.member_id, client.generation = answer.member_id, answer.generation_id
            client.is_leader = answer.leader == answer.member_id and not answer.skip_assignment
            client.members = tuple(member.member_id for member in answer.members)
            assert bool(answer.members) == (answer.leader == answer.member_id)
            if client.is_leader:
                told = self.leaders.setdefault(answer.generation_id, answer.member_id)
                assert told == answer.member_id, "two leaders of one generation"
        elif answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        else:
            client.member_id = ""

    def _receive_sync(self, client: Client, answer: object) -> None:
        if isinstance(answer, SyncGroupResponse) and answer.error_code == ErrorCode.NONE:
            record = self.bench.group.saved
            assert record is not None
            assert answer.assignment in {member.assignment for member in record.members}

    # Invariants

    def check(self) -> None:
        group, again = self.bench.group, self.bench.replayed()
        assert again.saved == group.saved
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY):
            assert again.state is group.state
            assert again.generation == group.generation
            assert again.describe() == group.describe()
            assert again.roster.leader == group.roster.leader
        ids = {member.member_id for member in group.roster}
        assert group.parked.joins.keys() <= ids
        assert group.parked.syncs.keys() <= ids
        assert group.unsynced <= ids
        assert not ids & group.pending_ids
        assert (group.roster.leader in ids) if ids else group.roster.leader is None
        assert not group.parked.joins or group.state is ClassicGroupState.PREPARING_REBALANCE
        assert not group.parked.syncs or group.state is ClassicGroupState.COMPLETING_REBALANCE
        waiting = [*group.parked.joins.values(), *group.parked.syncs.values()]
        assert len(waiting) == len(self.bench.unanswered), "somebody is forgotten, or waits twice"
        assert set(waiting) == self.bench.unanswered
        self._check_timers()
        self._check_one_assignment()

    def _check_timers(self) -> None:
        """Each member has a session timer or a waiting request, and each rebalance has a timer."""
        group, timers = self.bench.group, self.bench.timers
        for member in group.roster:
            is_watched = f"session/g/{member.member_id}" in timers
            assert is_watched or group.parked.has(member.member_id)
        for member_id in group.pending_ids:
            assert f"session/g/{member_id}" in timers
        assert (group.state is not ClassicGroupState.PREPARING_REBALANCE) or "rebalance/g" in timers
        watched = {key.removeprefix("session/g/") for key in timers if key.startswith("session")}
        assert watched <= {member.member_id for member in group.roster} | group.pending_ids

    def _check_one_assignment(self) -> None:
        record = self.bench.group.saved
        assert record is not None
        assigned = {
            member.instance_id or member.member_id: member.assignment for member in record.members
        }
        assert self.assignments.setdefault(record.generation, assigned) == assigned

    def settle(self) -> None:
        """All remaining clients follow the protocol from now on."""
        for _ in range(40):
            for client in self.clients:
                self.behave(client, 0)
                self.receive()
                self.check()
            self.bench.pass_ms(1_000)
            self.receive()

    def behave_all(self, client: Client, choice: int) -> None:
        """About a second in which clients follow the protocol, starting with this one."""
        start = self.clients.index(client)
        for each in (self.clients[start:] + self.clients[:start])[: choice or None]:
            self.behave(each, 0)
            self.receive()
        if choice > CLIENTS:
            self.bench.pass_ms(3_000)

    def behave(self, client: Client, choice: int) -> None:
        """The next step of a client that follows the protocol; none while a request waits."""
        group = self.bench.group
        if client.joining is not None or client.syncing is not None:
            return
        is_current = client.member_id in group.roster and client.generation == group.generation
        if not is_current or group.state is ClassicGroupState.PREPARING_REBALANCE:
            self.join(client, choice)
        elif (
            client.member_id in group.unsynced
            or group.state is ClassicGroupState.COMPLETING_REBALANCE
        ):
            self.sync(client, choice)
        else:
            self.bench.beat(client.member_id, generation=client.generation)


ACTIONS: tuple[Callable[[World, Client, int], None], ...] = (
    World.behave,
    World.behave_all,
    World.join,
    World.sync,
    World.beat,
    World.leave,
    World.crash,
    World.wait,
    World.restart,
)
STEPS = st.lists(
    st.tuples(st.integers(0, len(ACTIONS) - 1), st.integers(0, CLIENTS - 1), st.integers(0, 7)),
    min_size=10,
    max_size=60,
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(STEPS)
def test_a_classic_group_keeps_its_invariants(
    steps: list[tuple[int, int, int]],
) -> None:
    world = World()
    for action, client, choice in steps:
        ACTIONS[action](world, world.clients[client], choice)
        world.receive()
        world.check()
    world.settle()
    group = world.bench.group
    assert group.state is ClassicGroupState.STABLE
    assert isinstance(group.saved, ClassicGroupSaved)
    assert 1 <= len(group.roster) <= 4
    assert not group.parked.joins
    assert not group.parked.syncs
