"""`ottla group reset`: a plan, the change if it is wanted, and a look at what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.offset_lookup import chosen_partitions, offsets_at
from ottla.cli.shared.offsets_spec import Offset, Place, parse_place
from ottla.cli.shared.output import RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.client.admin.group_offsets import Committed, committed_offsets, set_offsets
from ottla.client.admin.groups import Group, describe_group
from ottla.client.errors import Refused
from ottla.client.routing.outcomes import answered
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# Kafka's words for what `ottla consume` calls beginning and end.
_KAFKAS_WORDS = {"earliest": "beginning", "latest": "end"}


class Shift(NamedTuple):
    """So many records back, if it is below 0, or forward."""

    by: int


Goal = Place | Shift


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Where a group is to go on. No topics: all of which it has offsets."""

    group: str
    goal: Goal
    topics: Sequence[str]
    partitions: Sequence[int] | None


class Step(NamedTuple):
    """A partition, what is committed (None: nothing), what will be, and where it ends."""

    partition: TopicPartition
    committed: int | None
    will_be: int
    end: int


def parse_goal(to: str | None, shift: int | None, now_ms: int) -> Goal:
    """Failure unless exactly one of both is given, and makes sense."""
    if (to is None) == (shift is None):
        raise Failure("give either --to or --shift", exit_code=ExitCode.USAGE)
    if shift is not None:
        return Shift(shift)
    return parse_place(_KAFKAS_WORDS.get(to or "", to or ""), "--to", now_ms)


async def reset_group(router: Router, wish: Wish, writer: RowWriter, *, may_act: bool) -> None:
    """Failure if the group has members, or in the end other offsets than were planned."""
    if wish.partitions and len(set(wish.topics)) != 1:
        raise Failure("--partition needs one --topic", exit_code=ExitCode.USAGE)
    group = await _group(router, wish)
    committed = await committed_offsets(router, wish.group)
    partitions = await _partitions(router, wish, committed)
    steps = await _plan(router, wish.goal, partitions, committed)
    for step in steps:
        writer.write(
            {
                "kind": "partition",
                "name": str(step.partition),
                "group": wish.group,
                "committed": step.committed,
                "will_be": step.will_be,
                "end_offset": step.end,
                "lag_will_be": step.end - step.will_be,
            }
        )
    writer.close()
    changes = {each.partition: each.will_be for each in steps if each.committed != each.will_be}
    if not changes:
        say("there is nothing to change")
    elif not may_act:
        say(f"nothing was changed: `--yes` sets {counted(len(changes), 'offset')}")
        if group is not None and group.members:
            say(str(_in_use(group)))
    else:
        if group is not None and group.members:
            raise _in_use(group)
        await _change(router, wish.group, changes)


async def _group(router: Router, wish: Wish) -> Group | None:
    """The group; None if it is not there and the topics that it is to begin with were named."""
    try:
        return await describe_group(router, wish.group)
    except Refused as refused:
        if refused.code != ErrorCode.GROUP_ID_NOT_FOUND or not wish.topics:
            raise
        return None


async def _partitions(
    router: Router, wish: Wish, committed: Mapping[TopicPartition, Committed]
) -> list[TopicPartition]:
    """Of the topics that were named all partitions or those named; else those with offsets."""
    if not wish.topics:
        return list(committed)
    topics = await router.topics(wish.topics)
    return [
        partition
        for topic in topics.values()
        for partition in chosen_partitions(answered(topic), wish.partitions)
    ]


async def _plan(
    router: Router,
    goal: Goal,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, Committed],
) -> list[Step]:
    """No offset is set where there is no record, before the first or behind the last."""
    begins = await offsets_at(router, partitions, OffsetSpec.EARLIEST)
    ends = await offsets_at(router, partitions, OffsetSpec.LATEST)
    if isinstance(goal, Shift):
        lacking = [partition for partition in partitions if partition not in committed]
        if lacking:
            raise Failure(
                f"the group has no offset of {lacking[0]}",
                why="only what was committed can be shifted",
                advice="--to PLACE sets an offset",
            )
        wanted = {each: committed[each].offset + goal.by for each in partitions}
    else:
        wanted = await offsets_at(router, partitions, goal)
    if isinstance(goal, Offset | Shift):
        wanted = {each: min(max(wanted[each], begins[each]), ends[each]) for each in partitions}
    return [
        Step(
            each, found.offset if (found := committed.get(each)) else None, wanted[each], ends[each]
        )
        for each in partitions
    ]


async def _change(router: Router, group: str, changes: Mapping[TopicPartition, int]) -> None:
    outcomes = await set_offsets(
        router, group, {each: Committed(offset) for each, offset in changes.items()}
    )
    for outcome in outcomes.values():
        answered(outcome)
    now = await committed_offsets(router, group)
    for partition, offset in changes.items():
        found = now.get(partition)
        if found is None or found.offset != offset:
            raise Failure(
                f"{partition} was set to {offset}, but the group has"
                f" {'none' if found is None else found.offset}",
                why="somebody else has committed, or the broker has lost it",
                exit_code=ExitCode.CHECK_FAILED,
            )
    say(f"set {counted(len(changes), 'offset')} of group {group}: read back, as planned")


def _in_use(group: Group) -> Failure:
    return Failure(
        f"group {group.group_id} has {counted(len(group.members), 'member')}",
        why="its consumers would overwrite what is set",
        advice="stop them, wait for their session timeout, and try again",
    )
