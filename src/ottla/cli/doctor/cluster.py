"""Checks of several brokers together: versions, metadata, controller, replication, leaders."""

from collections.abc import Sequence

from ottla.cli.cluster.health import MIN_ISR, Health, examine, leader_counts
from ottla.cli.doctor.finding import Finding, FindingState
from ottla.cli.doctor.views import check_same_views
from ottla.cli.reassignment.plan import named
from ottla.cli.shared.plurals import counted
from ottla.client.errors import ClientError
from ottla.client.routing.router import Router
from ottla.protocol.messages import APIS

# The replication factor that is advised, if there are as many brokers.
FACTOR_ADVISED = 3
# As the controller's `leader.imbalance.per.broker.percentage`.
IMBALANCE_PERCENT_MAX = 10
TOPICS_NAMED_MAX = 3


async def check_brokers_together(router: Router) -> list[Finding]:
    """One finding per check; none if the cluster has one broker, and always had."""
    try:
        health = await examine(router)
    except ClientError as error:
        return [Finding("replication", FindingState.LIMITED, str(error))]
    if len(health.broker_ids()) < 2:
        return []
    return [
        await _check_same_versions(router),
        _check_controller(router),
        await check_same_views(router),
        _check_down(health),
        _check_min_isr(health),
        _check_min_isr_fits(health),
        _check_losses(health),
        _check_factors(health, is_internal=False),
        _check_factors(health, is_internal=True),
        _check_leaders(health),
    ]


async def _check_same_versions(router: Router) -> Finding:
    """Brokers of different versions are normal only during an upgrade."""
    offered = {}
    for node_id in sorted(router.topology.brokers):
        try:
            offered[node_id] = (await router.broker(node_id)).offered_versions
        except ClientError:
            # Another check says so.
            continue
    ids = list(offered)
    different = [
        (node_id, key)
        for node_id in ids[1:]
        for key in sorted(offered[ids[0]].keys() | offered[node_id].keys())
        if offered[ids[0]].get(key) != offered[node_id].get(key)
    ]
    if different:
        node_id, key = different[0]
        name = APIS[key].name if key in APIS else f"API {key}"
        return Finding(
            "same versions",
            FindingState.LIMITED,
            f"brokers {ids[0]} and {node_id} differ in {name}",
            "finish the upgrade: all brokers should have the same version",
        )
    return Finding("same versions", FindingState.OK, f"{counted(len(ids), 'broker')} alike")


def _check_controller(router: Router) -> Finding:
    controller = router.topology.controller
    if controller not in router.topology.brokers:
        return Finding(
            "controller",
            FindingState.BROKEN,
            "none: no leader is elected, and nothing can be changed",
            "check the servers that have the metadata, and the logs of the brokers",
        )
    return Finding("controller", FindingState.OK, f"broker {controller}")


def _check_down(health: Health) -> Finding:
    """Brokers that have replicas and are not there."""
    down = [each for each in health.broker_ids() if each not in health.survey.brokers]
    if down:
        return Finding(
            "brokers down",
            FindingState.LIMITED,
            f"broker {', '.join(map(str, down))} has replicas, and is down",
            f"start it, or `ottla broker drain {down[0]}`",
        )
    return Finding("brokers down", FindingState.OK, "none")


def _check_min_isr(health: Health) -> Finding:
    below = health.below_min_isr()
    if below:
        return Finding(
            "min ISR",
            FindingState.BROKEN,
            f"acks=all is refused for {_count_of(below, health)}: {named(below)}",
            "start their brokers; `ottla topic describe --under-replicated`",
        )
    return Finding("min ISR", FindingState.OK, "acks=all is accepted everywhere")


def _check_min_isr_fits(health: Health) -> Finding:
    """Whether each topic can lose one replica, and `acks=all` means more than one copy."""
    too_high, too_low = [], []
    for topic in health.survey.topics.values():
        factor, least = topic.replication_factor, health.min_isr.get(topic.name, 1)
        if factor > 1 and least >= factor:
            too_high.append(topic.name)
        elif factor >= FACTOR_ADVISED and least == 1:
            too_low.append(topic.name)
    if too_high:
        return Finding(
            MIN_ISR,
            FindingState.LIMITED,
            f"as many as there are replicas, so that one broker less stops acks=all:"
            f" {_some(too_high)}",
            f"set {MIN_ISR} of the topic to one less than its replicas",
        )
    if too_low:
        return Finding(
            MIN_ISR,
            FindingState.LIMITED,
            f"1, so that acks=all may mean one copy only: {_some(too_low)}",
            f"set {MIN_ISR} of the topic to 2",
        )
    return Finding(MIN_ISR, FindingState.OK, "fits the replicas of all topics")


def _check_losses(health: Health) -> Finding:
    lost = health.possible_losses()
    if lost:
        return Finding(
            "lost records",
            FindingState.LIMITED,
            f"a replica has lost records of {_count_of(lost, health)}: {named(lost)}",
            "start all of their replicas; docs/replication.md says which one leads then",
        )
    return Finding("lost records", FindingState.OK, "no replica has lost any")


def _check_factors(health: Health, *, is_internal: bool) -> Finding:
    """Whether topics survive the loss of a broker."""
    name = "internal topics" if is_internal else "replication"
    advised = min(FACTOR_ADVISED, len(health.survey.brokers)) if is_internal else 2
    low = [
        topic
        for topic in health.survey.topics.values()
        if topic.is_internal == is_internal and 0 < topic.replication_factor < advised
    ]
    if low:
        factor = min(FACTOR_ADVISED, len(health.survey.brokers))
        return Finding(
            name,
            FindingState.LIMITED,
            f"fewer than {advised} replicas: {_some([topic.name for topic in low])}",
            f"`ottla topic replicate {low[0].name} --factor {factor}`",
        )
    return Finding(name, FindingState.OK, f"all have at least {advised} replicas")


def _check_leaders(health: Health) -> Finding:
    partitions = health.survey.partitions
    away = health.not_preferred()
    if 100 * len(away) > IMBALANCE_PERCENT_MAX * len(partitions):
        counts = leader_counts(partitions)
        return Finding(
            "leaders",
            FindingState.LIMITED,
            "leaders per broker: "
            + ", ".join(f"{each}: {counts[each]}" for each in sorted(health.survey.brokers))
            + f"; {_count_of(away, health)} not led by the preferred one",
            "`ottla topic elect --all`, when all brokers are up",
        )
    return Finding("leaders", FindingState.OK, "led by the preferred leaders")


def _some(topics: Sequence[str]) -> str:
    more = len(topics) - TOPICS_NAMED_MAX
    return ", ".join(topics[:TOPICS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _count_of(names: Sequence[object], health: Health) -> str:
    return f"{counted(len(names), 'partition')} of {len(health.survey.partitions)}"
