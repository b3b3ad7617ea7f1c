"""Checks whether all brokers see the same cluster: each is asked for its own metadata.

A broker that is cut off from ZooKeeper goes on with what it knew. A difference that lasts is
reported; one that ends between two looks is only a change on its way.
"""

import asyncio
from collections.abc import Mapping

from ottla.cli.doctor.finding import Finding, FindingState
from ottla.cli.reassignment.plan import named
from ottla.cli.shared.plurals import counted
from ottla.client.errors import ClientError
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Partition, Topology, learned, metadata_request
from ottla.protocol.topic_partition import TopicPartition

NAME = "same metadata"
# Brokers learn of a change at different times.
LOOKS_MAX = 4
BETWEEN_LOOKS_S = 0.5


async def check_same_views(router: Router) -> Finding:
    for look in range(LOOKS_MAX):
        if look:
            await asyncio.sleep(BETWEEN_LOOKS_S)
        views = await _ask_each(router)
        difference = find_difference(views)
        if difference is None:
            return Finding(NAME, FindingState.OK, f"{counted(len(views), 'broker')} alike")
    return Finding(
        NAME,
        FindingState.LIMITED,
        difference or "",
        "one of them does not follow the metadata: see its log and its /health/ready; it may be"
        " cut off from ZooKeeper",
    )


def find_difference(views: Mapping[int, Topology]) -> str | None:
    """How another broker's view differs from that of the first; None if all are alike. Pure."""
    ids = sorted(views)
    for other in ids[1:]:
        here, there = views[ids[0]], views[other]
        pair = f"brokers {ids[0]} and {other}"
        if here.controller != there.controller:
            return f"{pair} name the controllers {here.controller} and {there.controller}"
        if here.brokers.keys() != there.brokers.keys():
            only_one = sorted(here.brokers.keys() ^ there.brokers.keys())
            return f"only one of {pair} knows broker {', '.join(map(str, only_one))}"
        different = _different_partitions(here, there)
        if different:
            count = counted(len(different), "partition")
            return f"{pair} differ in {count}: {named(different)}"
    return None


def _different_partitions(here: Topology, there: Topology) -> list[TopicPartition]:
    one, other = _partitions(here), _partitions(there)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _partitions(view: Topology) -> dict[TopicPartition, Partition]:
    return {
        TopicPartition(topic.name, each.number): each
        for topic in view.topics.values()
        for each in topic.partitions
    }


async def _ask_each(router: Router) -> dict[int, Topology]:
    """The views of the brokers that answer; another check names the others."""
    views = {}
    for node_id in sorted(router.topology.brokers):
        try:
            connection = await router.broker(node_id)
            answer = await connection.ask(metadata_request(None))
            views[node_id] = learned(Topology(), None, answer)
        except ClientError:
            continue
    return views
