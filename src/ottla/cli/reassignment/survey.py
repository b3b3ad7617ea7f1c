"""What a plan is made from: brokers, partitions, reassignments in progress, sizes of replicas."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.name_suggestions import no_such
from ottla.client.admin.cluster import Admin
from ottla.client.admin.reassignments import Reassignment, list_reassignments
from ottla.client.admin.replica_plans import PlacedPartition, Placement
from ottla.client.errors import ClientError, UnsupportedByBroker
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Broker, Partition, Topic
from ottla.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Survey:
    """A cluster at one moment. `moving` are the reassignments in progress."""

    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]
    moving: Mapping[TopicPartition, Reassignment]

    @property
    def partitions(self) -> dict[TopicPartition, Partition]:
        return {
            TopicPartition(topic.name, each.number): each
            for topic in self.topics.values()
            for each in topic.partitions
        }

    @property
    def placement(self) -> Placement:
        return Placement(
            tuple(sorted(self.brokers)),
            tuple(
                PlacedPartition(name, each.replicas, each.in_sync)
                for name, each in self.partitions.items()
            ),
            {each.node_id: each.rack or each.address.host for each in self.brokers.values()},
        )

    def chosen_topics(self, names: Iterable[str] | None) -> list[Topic]:
        """The topics of these names, or all. Refused if one does not exist."""
        if names is None:
            return list(self.topics.values())
        return [self.topics[name] for name in dict.fromkeys(names)]

    def chosen_partitions(self, names: Iterable[str] | None) -> list[TopicPartition]:
        return [
            TopicPartition(topic.name, each.number)
            for topic in self.chosen_topics(names)
            for each in topic.partitions
        ]

    def require_brokers(self, broker_ids: Iterable[int]) -> None:
        """Failure if one of these does not live."""
        for broker_id in broker_ids:
            if broker_id not in self.brokers:
                known = [str(each) for each in sorted(self.brokers)]
                raise no_such("broker", str(broker_id), known, "`ottla broker list`")


async def survey_cluster(router: Router, names: Iterable[str] | None = None) -> Survey:
    """All brokers and topics. Refused if a topic of `names` does not exist, or by a broker."""
    topics = {topic.name: topic for topic in await Admin(router).list_topics()}
    topology = router.topology
    missing = [name for name in dict.fromkeys(names or ()) if name not in topics]
    for outcome in (await Admin(router).describe_topics(missing)).values() if missing else ():
        found = unwrap(outcome)
        topics[found.name] = found
    moving: Mapping[TopicPartition, Reassignment] = {}
    # Brokers before Kafka 2.4 have none.
    with suppress(UnsupportedByBroker):
        moving = await list_reassignments(router)
    return Survey(topology.brokers, dict(sorted(topics.items())), moving)


Sizes = Mapping[int, Mapping[TopicPartition, int]]


async def replica_sizes(router: Router, broker_ids: Iterable[int]) -> Sizes:
    """The bytes of each replica, by broker; a broker that does not tell them is missing."""
    sizes: dict[int, dict[TopicPartition, int]] = {}
    for broker_id in sorted(set(broker_ids)):
        try:
            directories = await Admin(router).describe_log_dirs(broker_id)
        except ClientError:
            continue
        own = sizes.setdefault(broker_id, {})
        for directory in directories:
            own |= directory.sizes
    return sizes


def parse_brokers(text: str, option: str) -> list[int]:
    """`1,2,3`. Failure if it is no list of ids, or has one twice."""
    try:
        broker_ids = [int(each) for each in text.split(",")]
    except ValueError:
        raise Failure(
            f"{option} {text!r} is not a list of broker ids",
            advice="numbers with commas, as 1,2,3",
            exit_code=ExitCode.USAGE,
        ) from None
    for broker_id in broker_ids:
        if broker_ids.count(broker_id) > 1:
            raise Failure(f"{option} has broker {broker_id} twice", exit_code=ExitCode.USAGE)
    return broker_ids
