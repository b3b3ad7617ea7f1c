"""A client's way to the coordinator of its group, which it looks for again when it has moved."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_fetch import Group, OffsetFetchRequest, Topic
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.cluster.cluster import BrokerLine
from tests.sim.cluster.routing import Routing, TryAgain
from tests.sim.replication.groups.group_state import GroupState, View
from tests.sim.replication.groups.offset_history import OffsetHistory
from tests.sim.replication.world import Target
from tests.sim.seams.entropy import SimEntropy
from tests.support.broker.group_requests import codes, commit

FIND_VERSION, FETCH_VERSION = 4, 9
# The coordinator is another broker, or will be there soon.
MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class Answer(NamedTuple):
    """A response; the time of its request; the coordinator's view if it was one all the time."""

    response: Any
    sent_s: float
    view: View | None


class CoordinatorLine:
    """Requests of one client to the coordinator of one group."""

    def __init__(self, state: GroupState, name: str, entropy: SimEntropy) -> None:
        self._state = state
        self._routing = Routing(state.world, name, entropy.fork("routing"))
        self._host = ""
        self._last_host = ""

    async def open(self) -> BrokerLine:
        """TryAgain if there is no coordinator, OSError or TimeoutError if nobody answers."""
        if not self._host:
            self._host = await self._find()
            self._state.coordinator_moves += self._last_host not in ("", self._host)
            self._last_host = self._host
        return await self._routing.to_host(self._host)

    async def ask(self, request: object, version: int, line: BrokerLine | None = None) -> Answer:
        line = line or await self.open()
        sent_s, before = self._state.now_s, self._state.view(line)
        response = await line.line.ask(request, version)
        is_same = before == self._state.view(line)
        return Answer(response, sent_s, before if is_same else None)

    def accept(self, code: int) -> ErrorCode:
        """TryAgain if another broker has to be asked, or later."""
        if code in MOVED:
            self._host = ""
            raise TryAgain
        return ErrorCode(code)

    def close(self) -> None:
        """The coordinator may be another broker."""
        self._host = ""
        self._routing.close()

    async def _find(self) -> str:
        line = await self._routing.any_broker()
        request = FindCoordinatorRequest(coordinator_keys=(self._state.group_id,))
        (found,) = (await line.line.ask(request, FIND_VERSION)).coordinators
        self.accept(found.error_code)
        assert found.error_code == ErrorCode.NONE, found
        host: str = found.host
        return host

    # Offsets

    async def commit(
        self, target: Target, session: Hashable, version: int, **fields: Any
    ) -> ErrorCode:
        """Commits the next offset of a partition. `fields` are those of the member."""
        state, line = self._state, await self.open()
        history, excuses = state.offsets(target), state.excuses
        made = history.send(session, line)
        request = commit(state.group_id, target.topic, {target.index: made.offset}, **fields)
        try:
            answer = await self.ask(request, version, line)
        except (OSError, TimeoutError):
            history.lose_answer(made)
            raise
        (code,) = codes(answer.response)
        if code == ErrorCode.NONE and excuses == state.excuses:
            history.acknowledge(made)
            state.commits += 1
        return self.accept(code)

    async def commit_late(self, target: Target, version: int, **fields: Any) -> None:
        """The first offset again, of a generation or an epoch that is over: must be refused."""
        state, excuses = self._state, self._state.excuses
        request = commit(state.group_id, target.topic, {target.index: 0}, **fields)
        (code,) = codes((await self.ask(request, version)).response)
        if code == ErrorCode.NONE and excuses == state.excuses:
            state.fail_if(f"a commit for {target} is accepted that is out of date: {fields}")

    async def check_offsets(self, *targets: Target, line: BrokerLine | None = None) -> None:
        """Fetches committed offsets. InvariantBroken if an acknowledged one is lost."""
        state = self._state
        line = line or await self.open()
        state.excuses  # noqa: B018 - forgets what is excused
        expected = {each: state.offsets(each).expected() for each in targets}
        answer = await self.fetch(targets, line)
        (group,) = answer.response.groups
        self.accept(group.error_code)
        assert group.error_code == ErrorCode.NONE, group
        if answer.view is None:
            return
        found = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in group.topics
            for each in topic.partitions
        }
        for target, due in expected.items():
            result = found[TopicPartition(target.topic, target.index)]
            assert result.error_code == ErrorCode.NONE, result
            history: OffsetHistory = state.offsets(target)
            state.checked += 1
            state.fail_if(history.why_wrong(result.committed_offset, due))

    async def fetch(self, targets: Sequence[Target], line: BrokerLine) -> Answer:
        topics = tuple(Topic(name=each.topic, partition_indexes=(each.index,)) for each in targets)
        group = Group(group_id=self._state.group_id, topics=topics)
        request = OffsetFetchRequest(groups=(group,), require_stable=True)
        return await self.ask(request, FETCH_VERSION, line)
