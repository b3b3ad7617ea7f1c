"""Starts a separate broker with the offsets of many groups: the time until all answer."""

import shutil
import time
from collections.abc import Sequence

from benchmarks import measuring
from benchmarks.loads.asking import Asking
from benchmarks.loads.coordinator import await_answers, await_coordinator, fetch_offsets
from benchmarks.loads.restarts import START_S_MAX, await_serving, longest_answers
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, Partition, Topic

TOPIC = "committed"
OFFSET_COMMIT_VERSION = 7
GROUPS_ASKED_AT_ONCE = 500


class StartWithGroups:
    """Groups without members commit offsets; then the broker is restarted."""

    def __init__(self, *, groups: int, partitions: int, rounds: int) -> None:
        self.groups, self.partitions, self.rounds = groups, partitions, rounds
        self._own: dict[str, Peer] = {}

    def prepare(self, peer: Peer, scope: Scope) -> None:
        name = f"{peer.directory.name}-{self.groups}-groups"
        own = self._own[peer.name] = peer.another(peer.directory.with_name(name))
        with own:
            own.create_topic(TOPIC, self.partitions)
            own.await_served(TOPIC, self.partitions)
            await_coordinator(own)
            with Asking(own) as asking:
                for offset in range(1, self.rounds + 1):
                    commit_all(asking, self._names(scope), self.partitions, offset)

    def finish(self, peer: Peer) -> None:
        if own := self._own.pop(peer.name, None):
            own.stop()
            shutil.rmtree(own.directory, ignore_errors=True)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        own, groups = self._own[peer.name], self._names(scope)
        began = time.monotonic()
        try:
            own.start()
            await_serving(own, began + START_S_MAX)
            with longest_answers(own) as answers_s, Asking(own) as asking:
                await_answers(asking, groups, began + START_S_MAX)
                answered_s = time.monotonic() - began
            memory_mb = measuring.memory_mb(own.pid)
            check_all(own, groups, self.rounds)
        finally:
            own.stop()
        figures = {"answered_s": answered_s, "memory_mb": memory_mb}
        return Ran(figures=figures | {"stall_ms": max(answers_s) * 1e3})

    def _names(self, scope: Scope) -> list[str]:
        return [f"group-{number:06d}" for number in range(scope.count(self.groups))]


class StartWithOneGroup(StartWithGroups):
    """The same start with only one group to load."""

    def __init__(self, *, partitions: int) -> None:
        super().__init__(groups=1, partitions=partitions, rounds=1)


def commit_all(asking: Asking, groups: Sequence[str], partitions: int, offset: int) -> None:
    """One commit of all partitions for each group."""
    topic = Topic(
        name=TOPIC,
        partitions=tuple(
            Partition(partition_index=index, committed_offset=offset, committed_metadata="")
            for index in range(partitions)
        ),
    )
    requests = [
        OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=(topic,)
        )
        for group in groups
    ]
    for response in asking.ask_all(requests, OFFSET_COMMIT_VERSION):
        if any(one.error_code for topic in response.topics for one in topic.partitions):
            raise LoadFailed(f"a commit was refused: {response}")


def check_all(peer: Peer, groups: Sequence[str], offset: int) -> None:
    """Checks that each group has its last committed offsets."""
    with Asking(peer) as asking:
        for begin in range(0, len(groups), GROUPS_ASKED_AT_ONCE):
            for found in fetch_offsets(asking, groups[begin : begin + GROUPS_ASKED_AT_ONCE]):
                partitions = [each for topic in found.topics for each in topic.partitions]
                if not partitions or any(each.committed_offset != offset for each in partitions):
                    raise LoadFailed(f"{found.group_id} has lost committed offsets")
