"""Reassignments in progress: their listing, their cancellation, and throttles left behind."""

from collections.abc import Collection, Mapping

from ottla.cli.reassignment.plan import ids_text
from ottla.cli.reassignment.survey import Survey, replica_sizes
from ottla.cli.reassignment.throttle import Throttled, find_throttles, restore_throttle
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.output import Row, RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.client.admin.reassignments import Reassignment, cancel_reassignments
from ottla.client.routing.router import Router
from ottla.protocol.topic_partition import TopicPartition

Moving = Mapping[TopicPartition, Reassignment]


def of_topics(survey: Survey, names: Collection[str]) -> Moving:
    """The reassignments of these topics, or of all if none is named."""
    return {name: each for name, each in survey.moving.items() if not names or name.topic in names}


async def show_status(
    router: Router, survey: Survey, names: Collection[str], writer: RowWriter, *, may_act: bool
) -> None:
    """Writes what moves. If nothing does, throttles that are left are named, or removed."""
    moving = of_topics(survey, names)
    await _write(router, survey, moving, writer)
    if moving:
        say(f"the replicas of {counted(len(moving), 'partition')} are moving")
        return
    say("no replicas are moving")
    if survey.moving:
        return
    throttles = await find_throttles(router, survey.topics, survey.brokers)
    await _remove_throttles(router, throttles, may_act=may_act)


async def cancel(
    router: Router, survey: Survey, moving: Moving, writer: RowWriter, *, may_act: bool
) -> None:
    """Cancels reassignments, and removes their throttles. Refused or Failure."""
    await _write(router, survey, moving, writer)
    if not moving:
        say("there is nothing to cancel")
        return
    if not may_act:
        say(f"nothing was changed: `--yes` cancels {counted(len(moving), 'reassignment')}")
        return
    outcomes = await cancel_reassignments(router, moving)
    refused = [outcome for outcome in outcomes.values() if outcome is not None]
    say(f"cancelled {counted(len(outcomes) - len(refused), 'reassignment')}")
    if len(moving) == len(survey.moving) and not refused:
        topics = {name.topic for name in moving}
        throttles = await find_throttles(router, sorted(topics), survey.brokers)
        await _remove_throttles(router, throttles, may_act=True)
    for refusal in refused[1:]:
        say(f"error: {refusal}")
    if refused:
        raise Failure(refused[0].what, why=refused[0].message or refused[0].code.name)


async def _write(router: Router, survey: Survey, moving: Moving, writer: RowWriter) -> None:
    partitions = survey.partitions
    leaders = {partitions[name].leader for name in moving if name in partitions}
    adding = {each for move in moving.values() for each in move.adding}
    sizes = await replica_sizes(router, (leaders | adding) & survey.brokers.keys())
    for name, move in moving.items():
        leader = partitions[name].leader if name in partitions else -1
        whole = sizes.get(leader, {}).get(name)
        copied = sum(sizes.get(each, {}).get(name, 0) for each in move.adding)
        writer.write(_row(name, move, whole, copied))
    writer.close()


def _row(name: TopicPartition, move: Reassignment, whole: int | None, copied: int) -> Row:
    left = None if whole is None else max(0, whole * len(move.adding) - copied)
    return {
        "kind": "partition",
        "name": str(name),
        "replicas": ids_text(move.replicas),
        "adding": ids_text(move.adding),
        "removing": ids_text(move.removing),
        "bytes_left": left,
    }


async def _remove_throttles(
    router: Router, throttles: Collection[Throttled], *, may_act: bool
) -> None:
    if not throttles:
        return
    places = ", ".join(f"{each.resource.name.lower()} {each.name}" for each in throttles)
    if may_act:
        await restore_throttle(router, throttles)
        say(f"removed the replication throttle of {places}")
    else:
        say(f"a replication throttle is set on {places}: `--yes` removes it")
