"""`ottla topic replicate`: another replication factor, with the present replicas where possible."""

from collections.abc import Sequence

from ottla.cli.reassignment.execution import Execution, execute
from ottla.cli.reassignment.plan import make_moves, summary, write_plan
from ottla.cli.reassignment.survey import Survey, survey_cluster
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.listing import ListingFormat
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.admin.config_changes import config_of_topics
from ottla.client.admin.replica_plans import plan_factor
from ottla.client.routing.router import Router

CANCEL_COMMAND = "ottla topic reassign --cancel --yes"
MIN_ISR = "min.insync.replicas"


async def replicate_topics(
    router: Router,
    names: Sequence[str] | None,
    factor: int,
    format_: ListingFormat,
    throttle_bytes_per_s: int | None,
    *,
    may_act: bool,
) -> None:
    """All topics if `names` is None, internal ones included."""
    survey = await survey_cluster(router, names)
    _check_factor(survey, factor)
    partitions = survey.partitions
    changed = {
        name for name in survey.chosen_partitions(names) if len(partitions[name].replicas) != factor
    }
    moves = await make_moves(router, survey, plan_factor(survey.placement, changed, factor))
    write_plan(moves, format_)
    if not moves:
        say(f"every partition has {counted(factor, 'replica')} already")
        return
    await _warn_of_min_isr(router, sorted({name.topic for name in changed}), factor)
    if not may_act:
        say(f"nothing was changed: `--yes` {summary(moves)}")
        return
    await execute(router, moves, Execution(CANCEL_COMMAND, throttle_bytes_per_s))


def _check_factor(survey: Survey, factor: int) -> None:
    if factor > len(survey.brokers):
        raise Failure(
            f"a replication factor of {factor} needs {factor} brokers",
            why=f"{len(survey.brokers)} are up: {', '.join(map(str, sorted(survey.brokers)))}",
            advice="start more brokers, or use a smaller factor",
        )


async def _warn_of_min_isr(router: Router, topics: Sequence[str], factor: int) -> None:
    values = await config_of_topics(router, MIN_ISR, topics)
    for topic, value in values.items():
        if value.isdecimal() and int(value) > factor:
            say(f"warning: {MIN_ISR} of topic {topic} is {value}, more than its replicas")
