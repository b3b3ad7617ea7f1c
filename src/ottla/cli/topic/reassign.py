"""`ottla topic reassign`: spreads replicas over brokers, or moves them as a plan file says."""

from collections.abc import Mapping, Sequence

from ottla.cli.reassignment.execution import Execution, execute
from ottla.cli.reassignment.in_progress import cancel, of_topics, show_status
from ottla.cli.reassignment.plan import make_moves, summary, write_plan
from ottla.cli.reassignment.survey import Survey, survey_cluster
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.listing import ListingFormat
from ottla.cli.shared.name_suggestions import no_such_topic
from ottla.cli.shared.output import RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.cli.topic.replicate import CANCEL_COMMAND
from ottla.client.admin.replica_plans import plan_spread
from ottla.client.routing.router import Router
from ottla.protocol.topic_partition import TopicPartition

Targets = Mapping[TopicPartition, tuple[int, ...]]


async def spread_topics(
    router: Router,
    names: Sequence[str] | None,
    brokers: Sequence[int] | None,
    format_: ListingFormat,
    throttle_bytes_per_s: int | None,
    *,
    may_act: bool,
) -> None:
    """Spreads topics, all if `names` is None, over brokers, all live ones if `brokers` is None."""
    survey = await survey_cluster(router, names)
    survey.require_brokers(brokers or ())
    over = sorted(survey.brokers) if brokers is None else list(brokers)
    partitions = survey.partitions
    chosen = set(survey.chosen_partitions(names))
    for name in sorted(chosen):
        factor = len(partitions[name].replicas)
        if factor > len(over):
            raise Failure(
                f"{name} has {factor} replicas, which need {factor} brokers",
                why=f"{counted(len(over), 'broker')} to spread it over",
                advice=f"name more brokers, or `ottla topic replicate {name.topic} --factor"
                f" {len(over)}`",
            )
    targets = plan_spread(survey.placement, chosen, over)
    await _carry_out(router, survey, targets, format_, throttle_bytes_per_s, may_act=may_act)


async def reassign_by_plan(
    router: Router,
    targets: Targets,
    format_: ListingFormat,
    throttle_bytes_per_s: int | None,
    *,
    may_act: bool,
) -> None:
    """Moves replicas as planned elsewhere. Failure if the plan does not fit the cluster."""
    survey = await survey_cluster(router)
    partitions = survey.partitions
    for name, replicas in targets.items():
        if name.topic not in survey.topics:
            raise no_such_topic(name.topic, survey.topics)
        if name not in partitions:
            raise Failure(
                f"topic {name.topic} has no partition {name.partition}",
                why=f"it has {len(survey.topics[name.topic].partitions)}, numbered from 0",
                exit_code=ExitCode.NOT_FOUND,
            )
        present = partitions[name].replicas
        survey.require_brokers(each for each in replicas if each not in present)
    changed = {
        name: replicas
        for name, replicas in targets.items()
        if replicas != partitions[name].replicas or name in survey.moving
    }
    await _carry_out(router, survey, changed, format_, throttle_bytes_per_s, may_act=may_act)


async def reassignment_status(
    router: Router, names: Sequence[str], writer: RowWriter, *, may_act: bool
) -> None:
    survey = await survey_cluster(router, names)
    await show_status(router, survey, names, writer, may_act=may_act)


async def cancel_topics(
    router: Router, names: Sequence[str], writer: RowWriter, *, may_act: bool
) -> None:
    survey = await survey_cluster(router, names)
    await cancel(router, survey, of_topics(survey, names), writer, may_act=may_act)


async def _carry_out(
    router: Router,
    survey: Survey,
    targets: Targets,
    format_: ListingFormat,
    throttle_bytes_per_s: int | None,
    *,
    may_act: bool,
) -> None:
    moves = await make_moves(router, survey, targets)
    write_plan(moves, format_)
    if not moves:
        say("all replicas are where they should be")
    elif not may_act:
        say(f"nothing was changed: `--yes` {summary(moves)}")
    else:
        await execute(router, moves, Execution(CANCEL_COMMAND, throttle_bytes_per_s))
