"""`ottla group reset`: plans new offsets, commits them with `--yes`, and verifies the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.offset_lookup import chosen_partitions, offsets_at
from ottla.cli.shared.offsets_spec import Offset, Position, parse_position
from ottla.cli.shared.output import RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.client.admin.group_offsets import CommittedOffset, commit_offsets, committed_offsets
from ottla.client.admin.groups import Group, describe_group
from ottla.client.errors import Refused
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# Kafka's names for the beginning and end of `ottla consume`.
_KAFKA_NAMES = {"earliest": "beginning", "latest": "end"}


class Shift(NamedTuple):
    """A number of offsets forward, or back if it is negative."""

    by: int


ResetTarget = Position | Shift


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOptions:
    """The new position of a group. Without topics: all topics with committed offsets."""

    group: str
    target: ResetTarget
    topics: Sequence[str]
    partitions: Sequence[int] | None


class OffsetChange(NamedTuple):
    """A partition with its committed offset (None if there is none), its new one, and its end."""

    partition: TopicPartition
    committed: int | None
    will_be: int
    end: int


def parse_target(to: str | None, shift: int | None, now_ms: int) -> ResetTarget:
    """Failure unless exactly one of both is given and valid."""
    if (to is None) == (shift is None):
        raise Failure("give either --to or --shift", exit_code=ExitCode.USAGE)
    if shift is not None:
        return Shift(shift)
    return parse_position(_KAFKA_NAMES.get(to or "", to or ""), "--to", now_ms)


async def reset_group(
    router: Router, options: ResetOptions, writer: RowWriter, *, may_act: bool
) -> None:
    """Failure if the group has members, or if the offsets read back differ from the plan."""
    if options.partitions and len(set(options.topics)) != 1:
        raise Failure("--partition needs one --topic", exit_code=ExitCode.USAGE)
    group = await _group(router, options)
    committed = await committed_offsets(router, options.group)
    partitions = await _partitions(router, options, committed)
    steps = await _plan(router, options.target, partitions, committed)
    for step in steps:
        writer.write(
            {
                "kind": "partition",
                "name": str(step.partition),
                "group": options.group,
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
            say(str(_has_members_failure(group)))
    else:
        if group is not None and group.members:
            raise _has_members_failure(group)
        await _change(router, options.group, changes)


async def _group(router: Router, options: ResetOptions) -> Group | None:
    """The group; None if it does not exist and topics are given, so that it can be created."""
    try:
        return await describe_group(router, options.group)
    except Refused as refused:
        if refused.code != ErrorCode.GROUP_ID_NOT_FOUND or not options.topics:
            raise
        return None


async def _partitions(
    router: Router, options: ResetOptions, committed: Mapping[TopicPartition, CommittedOffset]
) -> list[TopicPartition]:
    """The given partitions of the given topics; without topics, those with committed offsets."""
    if not options.topics:
        return list(committed)
    topics = await router.topics(options.topics)
    return [
        partition
        for topic in topics.values()
        for partition in chosen_partitions(unwrap(topic), options.partitions)
    ]


async def _plan(
    router: Router,
    target: ResetTarget,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, CommittedOffset],
) -> list[OffsetChange]:
    """The planned changes. New offsets stay within the beginning and end of their partition."""
    begins = await offsets_at(router, partitions, OffsetSpec.EARLIEST)
    ends = await offsets_at(router, partitions, OffsetSpec.LATEST)
    if isinstance(target, Shift):
        lacking = [partition for partition in partitions if partition not in committed]
        if lacking:
            raise Failure(
                f"the group has no offset of {lacking[0]}",
                why="only a committed offset can be shifted",
                advice="--to POSITION sets an offset",
            )
        wanted = {each: committed[each].offset + target.by for each in partitions}
    else:
        wanted = await offsets_at(router, partitions, target)
    if isinstance(target, Offset | Shift):
        wanted = {each: min(max(wanted[each], begins[each]), ends[each]) for each in partitions}
    return [
        OffsetChange(
            each, found.offset if (found := committed.get(each)) else None, wanted[each], ends[each]
        )
        for each in partitions
    ]


async def _change(router: Router, group: str, changes: Mapping[TopicPartition, int]) -> None:
    outcomes = await commit_offsets(
        router, group, {each: CommittedOffset(offset) for each, offset in changes.items()}
    )
    for outcome in outcomes.values():
        unwrap(outcome)
    now = await committed_offsets(router, group)
    for partition, offset in changes.items():
        found = now.get(partition)
        if found is None or found.offset != offset:
            raise Failure(
                f"{partition} was set to {offset}, but the group has"
                f" {'none' if found is None else found.offset}",
                why="another client has committed, or the broker has lost the offset",
                exit_code=ExitCode.CHECK_FAILED,
            )
    say(f"set {counted(len(changes), 'offset')} of group {group}, verified by reading them back")


def _has_members_failure(group: Group) -> Failure:
    return Failure(
        f"group {group.group_id} has {counted(len(group.members), 'member')}",
        why="its consumers would overwrite the new offsets",
        advice="stop them, wait for their session timeout, and try again",
    )
