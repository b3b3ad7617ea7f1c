"""The blocking client: topics, offsets, and committed offsets of groups.

Needs no event loop, so it works where one runs already (a notebook) and where none can run (a
Spark worker).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from ottla.client.admin.group_offsets import (
    ONE_GROUP_VERSION_MAX,
    TOPIC_NAMES_VERSION_MAX,
    CommittedOffset,
    commit_codes,
    commit_request,
    committed_in_response,
)
from ottla.client.blocking.connection import BlockingConnection
from ottla.client.blocking.router import BlockingRouter
from ottla.client.connection.bootstrap import parse_addresses
from ottla.client.errors import raise_if_refused
from ottla.client.options import ClientOptions
from ottla.client.reading.offsets import ListedOffset, listed_offsets, offsets_request
from ottla.client.routing.coordinators import CoordinatorKey
from ottla.client.routing.outcomes import Outcomes, unwrap
from ottla.client.routing.topic_lookup import FoundTopics
from ottla.client.routing.topology import Topic
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.blocking import Blocking, RealBlocking
from ottla.seams.clock import Clock, RealClock
from ottla.seams.entropy import Entropy, RealEntropy


class BlockingClient:
    """A client of one thread. Connects on the first request; `close` ends the connections.

    Retries retriable errors (a leader that moves, a broker that is down); then raises ClientError.
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
        """All visible topics, in the order of names."""
        topology = self.router.retrying(lambda: self.router.refresh(None))
        return [topic for _, topic in sorted(topology.topics.items())]

    def topic(self, name: str) -> Topic:
        """A topic, when each of its partitions has a leader. Refused."""
        return unwrap(self.find_topics([name])[name])

    def find_topics(self, names: Iterable[str]) -> FoundTopics:
        """Topics, when each of their partitions has a leader; Refused for each that failed."""
        return self.router.topics(names)

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The current partitions of a topic."""
        return [TopicPartition(topic, each.number) for each in self.topic(topic).partitions]

    def offsets(
        self,
        specs: Mapping[TopicPartition, int],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int]:
        """The offset of each partition for an `OffsetSpec`.

        Under READ_COMMITTED the latest offset is the last stable offset.
        """
        found = self._list_offsets(specs, isolation)
        return {each: unwrap(found[each]).offset for each in specs}

    def offsets_for_times(
        self,
        times_ms: Mapping[TopicPartition, int],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, int | None]:
        """The offset of the first record with this timestamp or a later one; None without one."""
        found = self._list_offsets(times_ms, isolation)
        offsets = {each: unwrap(found[each]).offset for each in times_ms}
        return {each: offset if offset >= 0 else None for each, offset in offsets.items()}

    def group_offsets(self, group_id: str) -> dict[TopicPartition, int]:
        """The committed offsets of a group; none for a group that does not exist."""
        request = OffsetFetchRequest(group_id=group_id, topics=None)
        answer = self.router.ask_coordinator(
            CoordinatorKey(group_id),
            request,
            lambda answer: [answer.error_code],
            version_max=ONE_GROUP_VERSION_MAX,
        )
        return {
            each: found.offset for each, found in committed_in_response(answer, group_id).items()
        }

    def commit_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits offsets for a group, which need not exist. Refused, also if it has members."""
        request = commit_request(
            group_id, {each: CommittedOffset(offset) for each, offset in offsets.items()}
        )
        answer = self.router.ask_coordinator(
            CoordinatorKey(group_id), request, commit_codes, version_max=TOPIC_NAMES_VERSION_MAX
        )
        for code in commit_codes(answer):
            raise_if_refused(code, f"offsets of group {group_id}")

    def _list_offsets(
        self, specs: Mapping[TopicPartition, int], isolation: Isolation
    ) -> Outcomes[ListedOffset]:
        timeout_ms = self.router.options.request_timeout_ms

        def ask(
            leader: BlockingConnection, partitions: Sequence[TopicPartition]
        ) -> Outcomes[ListedOffset]:
            asked = {each: specs[each] for each in partitions}
            return listed_offsets(leader.ask(offsets_request(asked, isolation, timeout_ms)))

        return self.router.ask_leaders(specs, ask)
