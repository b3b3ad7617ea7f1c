"""The state of a cluster's partitions, counted for the cluster and for each broker."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.cli.reassignment.survey import Survey, survey_cluster
from ottla.client.admin.cluster import Admin
from ottla.client.admin.config_changes import config_of_topics
from ottla.client.admin.eligible_leaders import EligibleLeaders, eligible_leaders
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Partition
from ottla.protocol.topic_partition import TopicPartition

MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class Health:
    """A survey, with `min.insync.replicas` of each topic and the eligible leaders, if known."""

    survey: Survey
    min_isr: Mapping[str, int]
    eligible: Mapping[TopicPartition, EligibleLeaders]

    def under_replicated(self) -> list[TopicPartition]:
        """Partitions with a replica out of sync, except one that is being added."""
        return [
            name
            for name, each in self.survey.partitions.items()
            if set(each.replicas) - set(each.in_sync) - set(self._adding(name))
        ]

    def offline(self) -> list[TopicPartition]:
        """Partitions that nobody leads."""
        return [name for name, each in self.survey.partitions.items() if each.is_unavailable]

    def below_min_isr(self) -> list[TopicPartition]:
        """Partitions for which acks=all is refused."""
        return [
            name
            for name, each in self.survey.partitions.items()
            if len(each.in_sync) < min(self.min_isr.get(name.topic, 1), len(each.replicas))
        ]

    def possible_losses(self) -> list[TopicPartition]:
        """Partitions with a replica that has lost records which it had acknowledged."""
        return [name for name, each in self.eligible.items() if each.last_known_elr]

    def not_preferred(self) -> list[TopicPartition]:
        """Partitions that another one leads than their preferred leader."""
        return [
            name
            for name, each in self.survey.partitions.items()
            if not each.is_unavailable and each.replicas and each.leader != each.replicas[0]
        ]

    def broker_ids(self) -> list[int]:
        """Brokers that are up, and those that have replicas though they are not."""
        assigned = {broker for each in self.survey.partitions.values() for broker in each.replicas}
        return sorted(assigned | self.survey.brokers.keys())

    def _adding(self, name: TopicPartition) -> tuple[int, ...]:
        moving = self.survey.moving.get(name)
        return () if moving is None else moving.adding


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What one broker leads and has."""

    leaders: int
    replicas: int
    out_of_sync: tuple[TopicPartition, ...]
    # It is the preferred leader of these, and another one leads them.
    led_elsewhere: tuple[TopicPartition, ...]


def broker_load(partitions: Mapping[TopicPartition, Partition], broker_id: int) -> BrokerLoad:
    own = {name: each for name, each in partitions.items() if broker_id in each.replicas}
    return BrokerLoad(
        leaders=sum(each.leader == broker_id for each in own.values()),
        replicas=len(own),
        out_of_sync=tuple(name for name, each in own.items() if broker_id not in each.in_sync),
        led_elsewhere=tuple(
            name
            for name, each in own.items()
            if each.replicas[0] == broker_id and each.leader != broker_id
        ),
    )


def leader_counts(partitions: Mapping[TopicPartition, Partition]) -> Counter[int]:
    return Counter(each.leader for each in partitions.values() if not each.is_unavailable)


async def examine(router: Router) -> Health:
    """Asks the cluster. Refused."""
    await router.retrying(lambda: router.refresh(()))
    if router.topology.controller in router.topology.brokers:
        survey = await survey_cluster(router)
    else:
        # Nothing moves without a controller, and the rest is known.
        topics = {topic.name: topic for topic in await Admin(router).list_topics()}
        survey = Survey(router.topology.brokers, topics, {})
    values = await config_of_topics(router, MIN_ISR, list(survey.topics))
    min_isr = {topic: int(value) for topic, value in values.items() if value.isdecimal()}
    return Health(survey, min_isr, await eligible_leaders(router, list(survey.topics)))
