"""`ottla broker drain`: moves all replicas of a broker to others, so that it can be removed."""

from collections.abc import Mapping

from ottla.cli.reassignment.execution import Execution, execute
from ottla.cli.reassignment.in_progress import cancel
from ottla.cli.reassignment.plan import make_moves, summary, write_plan
from ottla.cli.reassignment.survey import Survey, survey_cluster
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.listing import ListingFormat
from ottla.cli.shared.name_suggestions import no_such
from ottla.cli.shared.output import RowWriter, say
from ottla.client.admin.replica_plans import plan_drain
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Partition
from ottla.protocol.topic_partition import TopicPartition


async def drain_broker(
    router: Router,
    broker_id: int,
    format_: ListingFormat,
    throttle_bytes_per_s: int | None,
    *,
    may_act: bool,
) -> None:
    """A broker that is down is drained from the other replicas. Failure if there are too few."""
    survey = await survey_cluster(router)
    partitions = survey.partitions
    own = {name: each for name, each in partitions.items() if broker_id in each.replicas}
    if not own:
        _require_up(survey, broker_id)
    _check_room(survey, broker_id, own)
    moves = await make_moves(router, survey, plan_drain(survey.placement, broker_id))
    write_plan(moves, format_)
    if not moves:
        say(f"broker {broker_id} has no replicas: it can be removed")
        return
    if not may_act:
        say(f"nothing was changed: `--yes` {summary(moves)}")
        return
    how = Execution(f"ottla broker drain {broker_id} --cancel --yes", throttle_bytes_per_s)
    await execute(router, moves, how)
    await _report(router, broker_id)


async def cancel_drain(router: Router, broker_id: int, writer: RowWriter, *, may_act: bool) -> None:
    """Cancels the reassignments that take replicas from a broker."""
    survey = await survey_cluster(router)
    moving = {name: each for name, each in survey.moving.items() if broker_id in each.removing}
    if not moving and not any(broker_id in each.replicas for each in survey.partitions.values()):
        _require_up(survey, broker_id)
    await cancel(router, survey, moving, writer, may_act=may_act)


def _require_up(survey: Survey, broker_id: int) -> None:
    """Failure if nobody has heard of this broker."""
    if broker_id not in survey.brokers:
        known = map(str, sorted(survey.brokers))
        raise no_such("broker", str(broker_id), known, "`ottla broker list`")


def _check_room(survey: Survey, broker_id: int, own: Mapping[TopicPartition, Partition]) -> None:
    left = [each for each in sorted(survey.brokers) if each != broker_id]
    for name, each in own.items():
        usable = {*left, *each.replicas} - {broker_id}
        if len(usable) < len(each.replicas):
            raise Failure(
                f"{name} has {len(each.replicas)} replicas, and {len(left)} other brokers are up",
                why="two replicas of a partition cannot be on one broker",
                advice="start another broker, or"
                f" `ottla topic replicate {name.topic} --factor {max(1, len(left))}`",
            )


async def _report(router: Router, broker_id: int) -> None:
    """Topics may have been created on the broker meanwhile."""
    after = await survey_cluster(router)
    new = [name for name, each in after.partitions.items() if broker_id in each.replicas]
    if new:
        say(f"broker {broker_id} has got replicas of {len(new)} other partitions meanwhile:")
        say(f"  run `ottla broker drain {broker_id}` again")
    else:
        say(f"broker {broker_id} has no replicas: it can be removed")
