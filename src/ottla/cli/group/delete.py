"""`ottla group delete`: deletes groups, or their committed offsets of some topics."""

from collections.abc import Collection, Sequence

from ottla.cli.shared.failure import Failure
from ottla.cli.shared.name_suggestions import no_such_topic
from ottla.cli.shared.output import RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.client.admin.cluster import Admin
from ottla.client.admin.group_offsets import committed_offsets, delete_offsets
from ottla.client.admin.groups import Group, delete_group, describe_group
from ottla.client.errors import Refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition


async def delete_groups(
    router: Router,
    names: Sequence[str],
    topics: Collection[str],
    writer: RowWriter,
    *,
    may_act: bool,
) -> None:
    """Failure if a group does not exist or has members; groups before it stay deleted."""
    groups = [await describe_group(router, name) for name in names]
    committed = {name: await committed_offsets(router, name) for name in names}
    await _check_topics(
        router, topics, {each.topic for all_ in committed.values() for each in all_}
    )
    offsets = {
        name: [each for each in committed[name] if not topics or each.topic in topics]
        for name in names
    }
    for group in groups:
        writer.write(
            {
                "kind": "group",
                "name": group.group_id,
                "state": group.state,
                "members": len(group.members),
                "offsets": len(offsets[group.group_id]),
            }
        )
    writer.close()
    total = sum(map(len, offsets.values()))
    if topics and not total:
        say("there is nothing to delete")
    elif not may_act:
        planned = counted(total, "offset") if topics else counted(len(groups), "group")
        say(f"nothing was changed: `--yes` deletes {planned}")
    else:
        for group in groups:
            if topics:
                await _delete_offsets(router, group.group_id, offsets[group.group_id])
            else:
                await _delete_group(router, group)


async def _check_topics(
    router: Router, topics: Collection[str], committed: Collection[str]
) -> None:
    """Failure if a topic neither exists nor has committed offsets."""
    if set(topics) <= set(committed):
        return
    known = {topic.name for topic in await Admin(router).list_topics()} | set(committed)
    for name in topics:
        if name not in known:
            raise no_such_topic(name, known)


async def _delete_group(router: Router, group: Group) -> None:
    try:
        await delete_group(router, group.group_id)
    except Refused as refused:
        if refused.code != ErrorCode.NON_EMPTY_GROUP:
            raise
        raise Failure(
            f"group {group.group_id} has members",
            why="only a group without members can be deleted",
            advice="stop its consumers, wait for their session timeout, and try again",
        ) from refused
    say(f"deleted group {group.group_id}")


async def _delete_offsets(router: Router, group: str, partitions: Sequence[TopicPartition]) -> None:
    if not partitions:
        return
    outcomes = await delete_offsets(router, group, partitions)
    for partition, outcome in outcomes.items():
        if outcome is None:
            continue
        if isinstance(outcome, Refused) and outcome.code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
            raise Failure(
                f"group {group} is subscribed to {partition.topic}",
                why="the offsets of subscribed topics cannot be deleted",
                advice="stop its consumers, wait for their session timeout, and try again",
            ) from outcome
        raise outcome
    say(f"deleted {counted(len(partitions), 'offset')} of group {group}")
