"""`ottla topic elect`: preferred leaders or, where nobody can lead, unclean ones."""

from collections.abc import Sequence

from ottla.cli.reassignment.plan import ids_text
from ottla.cli.reassignment.survey import Survey, survey_cluster
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.output import RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.client.admin.leader_elections import ElectionType, elect_leaders
from ottla.client.errors import Refused
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Partition
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition


async def elect_preferred(router: Router, names: Sequence[str] | None, writer: RowWriter) -> None:
    """Makes the first replica of each partition lead, where it does not. Failure if some cannot."""
    survey = await survey_cluster(router, names)
    due = {
        name: each
        for name, each in _chosen(survey, names).items()
        if each.replicas and each.leader != each.replicas[0]
    }
    await _elect(router, due, ElectionType.PREFERRED, writer)


async def elect_unclean(
    router: Router, names: Sequence[str] | None, writer: RowWriter, *, may_act: bool
) -> None:
    """Makes any live replica lead partitions that nobody leads. Shows the plan first."""
    survey = await survey_cluster(router, names)
    due = {name: each for name, each in _chosen(survey, names).items() if each.is_unavailable}
    if may_act or not due:
        await _elect(router, due, ElectionType.UNCLEAN, writer)
        return
    for name, each in due.items():
        live = [broker for broker in each.replicas if broker in survey.brokers]
        writer.write(
            {
                "kind": "partition",
                "name": str(name),
                "replicas": ids_text(each.replicas),
                "in_sync": ids_text(each.in_sync),
                "may_lead": ids_text(live),
            }
        )
    writer.close()
    say("an unclean leader may lack records that were acknowledged: they are lost for good,")
    say("  and replicas that have them remove them when they are back")
    say(f"nothing was changed: `--yes` elects leaders of {counted(len(due), 'partition')}")


def _chosen(survey: Survey, names: Sequence[str] | None) -> dict[TopicPartition, Partition]:
    partitions = survey.partitions
    return {name: partitions[name] for name in survey.chosen_partitions(names)}


async def _elect(
    router: Router,
    due: dict[TopicPartition, Partition],
    election: ElectionType,
    writer: RowWriter,
) -> None:
    if not due:
        writer.close()
        say("no election is needed")
        return
    outcomes = await elect_leaders(router, due, election)
    refused = {
        name: outcome
        for name, outcome in outcomes.items()
        if outcome is not None and outcome.code != ErrorCode.ELECTION_NOT_NEEDED
    }
    for name, each in due.items():
        writer.write(
            {
                "kind": "partition",
                "name": str(name),
                "replicas": ids_text(each.replicas),
                "leader_before": None if each.is_unavailable else each.leader,
                "outcome": refused[name].code.name if name in refused else "elected",
            }
        )
    writer.close()
    say(f"elected leaders of {counted(len(due) - len(refused), 'partition')}")
    if refused:
        raise _failure(list(refused.values()))


def _failure(refused: Sequence[Refused]) -> Failure:
    first = refused[0]
    return Failure(
        f"{counted(len(refused), 'partition')} got no new leader",
        why=f"{first.what}: {first.message or first.code.name}",
        advice="`ottla topic describe` shows which replicas are in sync",
    )
