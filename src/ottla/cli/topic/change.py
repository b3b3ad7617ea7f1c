"""`ottla topic create`, `grow`, `delete` and `trim`. The last three show a plan first."""

from collections.abc import Iterable, Sequence

from ottla.cli.shared.failure import Failure
from ottla.cli.shared.name_suggestions import no_such
from ottla.cli.shared.offset_lookup import chosen_partitions, offsets_at
from ottla.cli.shared.offsets_spec import Position
from ottla.cli.shared.output import RowWriter, say
from ottla.cli.shared.plurals import counted
from ottla.cli.topic.show import existing_topics, partitions_of
from ottla.client.admin.cluster import Admin, NewTopic
from ottla.client.errors import Refused
from ottla.client.routing.outcomes import unwrap
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.offset_spec import OffsetSpec
from ottla.settings.table import TOPIC_SETTINGS


async def create_topics(router: Router, topics: Sequence[NewTopic], *, may_exist: bool) -> None:
    """Refused if a topic could not be created; the others are created anyway."""
    outcomes = await Admin(router).create_topics(topics)
    refused = []
    for name, refusal in outcomes.items():
        if refusal is None:
            say(f"created topic {name}")
        elif may_exist and refusal.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            say(f"topic {name} exists already")
        else:
            refused.append(refusal)
    for refusal in refused:
        if refusal.code == ErrorCode.INVALID_CONFIG:
            _check_configs(topics[0].configs, refusal.message)
    _raise_first(refused)


def _check_configs(names: Iterable[str], why: str | None) -> None:
    """Failure if a name is not a topic setting. Called after a broker has refused the settings:
    another Kafka may have others."""
    for name in names:
        if name not in TOPIC_SETTINGS:
            raise no_such("topic setting", name, TOPIC_SETTINGS, "docs/settings.md", why=why)


async def grow_topic(
    router: Router, name: str, partitions: int, writer: RowWriter, *, may_act: bool
) -> None:
    admin = Admin(router)
    (topic,) = await existing_topics(admin, [name])
    present = len(topic.partitions)
    if partitions <= present:
        raise Failure(
            f"topic {name} has {present} partitions",
            why="the number of partitions can only grow",
        )
    writer.write({"kind": "topic", "name": name, "partitions": present, "will_have": partitions})
    writer.close()
    if not may_act:
        say("nothing was changed: `--yes` adds the partitions, which moves keys to other ones")
        return
    await admin.create_partitions(name, partitions)
    say(f"topic {name} has {partitions} partitions")


async def delete_topics(
    router: Router, names: Sequence[str], writer: RowWriter, *, may_act: bool
) -> None:
    admin = Admin(router)
    topics = await existing_topics(admin, names)
    partitions = partitions_of(topics)
    begins = await offsets_at(router, partitions, OffsetSpec.EARLIEST)
    ends = await offsets_at(router, partitions, OffsetSpec.LATEST)
    for topic in topics:
        own = [each for each in partitions if each.topic == topic.name]
        writer.write(
            {
                "kind": "topic",
                "name": topic.name,
                "partitions": len(own),
                "records_at_most": sum(ends[each] - begins[each] for each in own),
            }
        )
    writer.close()
    if not may_act:
        say(f"nothing was changed: `--yes` deletes {counted(len(topics), 'topic')}")
        return
    outcomes = await admin.delete_topics(names)
    for name, refusal in outcomes.items():
        if refusal is None:
            say(f"deleted topic {name}")
    _raise_first([refusal for refusal in outcomes.values() if refusal is not None])


async def trim_topic(
    router: Router,
    name: str,
    numbers: Sequence[int] | None,
    spec: Position,
    writer: RowWriter,
    *,
    may_act: bool,
) -> None:
    partitions = chosen_partitions(await router.topic(name), numbers)
    begins = await offsets_at(router, partitions, OffsetSpec.EARLIEST)
    ends = await offsets_at(router, partitions, OffsetSpec.LATEST)
    wanted = await offsets_at(router, partitions, spec)
    before = {each: min(max(wanted[each], begins[each]), ends[each]) for each in partitions}
    for each in partitions:
        writer.write(
            {
                "kind": "partition",
                "name": str(each),
                "first_offset": begins[each],
                "will_begin_at": before[each],
                "end_offset": ends[each],
                "records_at_most": before[each] - begins[each],
            }
        )
    writer.close()
    trimmed = {each: offset for each, offset in before.items() if offset > begins[each]}
    total = sum(offset - begins[each] for each, offset in trimmed.items())
    if not trimmed:
        say("there is nothing to delete")
    elif not may_act:
        say(f"nothing was changed: `--yes` deletes at most {counted(total, 'record')}")
    else:
        outcomes = await Admin(router).delete_records(trimmed)
        for outcome in outcomes.values():
            unwrap(outcome)
        say(f"deleted at most {counted(total, 'record')} of {counted(len(trimmed), 'partition')}")


def _raise_first(refused: Sequence[Refused]) -> None:
    """Prints all refusals but the first, and raises the first."""
    for refusal in refused[1:]:
        say(f"error: {refusal}")
    if refused:
        raise refused[0]
