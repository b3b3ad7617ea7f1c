"""What can be asked of a cluster by a thread that may block: topics, offsets, a group's progress.

Runs no event loop, so that it works where one runs already (a notebook) and where none can (a
worker of Spark).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from ottla.client.admin.group_offsets import (
    NAMED_BY_NAME_MAX,
    ONE_GROUP_MAX,
    Committed,
    commit_codes,
    commit_request,
    committed,
)
from ottla.client.blocking.connection import BlockingConnection
from ottla.client.blocking.router import BlockingRouter
from ottla.client.connection.bootstrap import parse_addresses
from ottla.client.errors import raise_if_refused
from ottla.client.options import ClientOptions
from ottla.client.reading.offsets import ListedOffset, listed, offsets_request
from ottla.client.routing.coordinators import CoordinatorKey
from ottla.client.routing.outcomes import Outcomes, answered
from ottla.client.routing.topic_lookup import FoundTopics
from ottla.client.routing.topology import Topic
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.blocking import Blocking, RealBlocking
from ottla.seams.clock import Clock, RealClock
from ottla.seams.entropy import Entropy, RealEntropy


class BlockingClient:
    """A client of one thread. Dials nothing before it is asked something; `close` ends it.

    What fails for a moment (a leader that moves, a broker that is away) is asked again; what then
    still fails is a ClientError.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        options: ClientOptions | None = None,
        *,
        blocking: Blocking | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.router = BlockingRouter(
            parse_addresses(bootstrap_servers),
            blocking=blocking or RealBlocking(),
            clock=clock or RealClock(),
            entropy=entropy or RealEntropy(),
            options=options,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.router.close()

    def topics(self) -> list[Topic]:
        """All topics that this client may see, by their names."""
        topology = self.router.retrying(lambda: self.router.refresh(None))
        return [topic for _, topic in sorted(topology.topics.items())]

    def topic(self, name: str) -> Topic:
        """A topic of which every partition is led. Refused if it does not turn up."""
        return answered(self.find_topics([name])[name])

    def find_topics(self, names: Iterable[str]) -> FoundTopics:
        """Topics of which every partition is led; Refused for each that does not turn up."""
        return self.router.topics(names)

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions that a topic has now."""
        return [TopicPartition(topic, each.number) for each in self.topic(topic).partitions]

    def offsets(
        self,
        places: Mapping[TopicPartition, int],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        """The offset of each partition's place, an `At`.

        Under READ_COMMITTED the end is the first offset of a transaction that is not over.
        """
        found = self._list_offsets(places, isolation)
        return {each: answered(found[each]).offset for each in places}

    def offsets_for_times(
        self,
        times_ms: Mapping[TopicPartition, int],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int | None]:
        """The offset of the first record that is not before the time; None if none is as late."""
        found = self._list_offsets(times_ms, isolation)
        offsets = {each: answered(found[each]).offset for each in times_ms}
        return {each: offset if offset >= 0 else None for each, offset in offsets.items()}

    def group_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """The offsets that a group has committed; a group that does not exist has none."""
        request = OffsetFetchRequest(group_id=group_id, topics=None)
        answer = self.router.ask_coordinator(
            CoordinatorKey(group_id),
            request,
            lambda answer: [answer.error_code],
            version_max=ONE_GROUP_MAX,
        )
        return {each: found.offset for each, found in committed(answer, group_id).items()}

    def commit_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets offsets of a group that need not exist. Refused, also if it has members."""
        request = commit_request(
            group_id, {each: Committed(offset) for each, offset in offsets.items()}
        )
        answer = self.router.ask_coordinator(
            CoordinatorKey(group_id), request, commit_codes, version_max=NAMED_BY_NAME_MAX
        )
        for code in commit_codes(answer):
            raise_if_refused(code, f"offsets of group {group_id}")

    def _list_offsets(
        self, places: Mapping[TopicPartition, int], isolation: Isolation
    ) -> Outcomes[ListedOffset]:
        timeout_ms = self.router.options.request_timeout_ms

        def ask(
            leader: BlockingConnection, partitions: Sequence[TopicPartition]
        ) -> Outcomes[ListedOffset]:
            asked = {each: places[each] for each in partitions}
            return listed(leader.ask(offsets_request(asked, isolation, timeout_ms)))

        return self.router.ask_leaders(places, ask)
