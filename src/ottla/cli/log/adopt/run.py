"""What `ottla log adopt` does: surveys, plans, shows; then copies, recovers and enters."""

import os
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from ottla.cli.log.adopt.partition_copy import copy_partition
from ottla.cli.log.adopt.partition_recovery import Points, RecoveredPartition, recover
from ottla.cli.log.adopt.plan import AdoptedTopic, Plan, plan_adoption
from ottla.cli.log.adopt.registration import enter_topics, known_image
from ottla.cli.log.adopt.survey import Survey, is_same_directory, survey
from ottla.cli.log.paths import held_for_reading, held_for_writing
from ottla.cli.log.progress import progress_of
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import RowWriter, say
from ottla.errors import StorageError
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy
from ottla.seams.files import Files
from ottla.storage.directory.checkpoint_files import MetaProperties

SETTINGS_NOTE = (
    "note: settings of topics are Kafka's metadata and are not taken over, but for compaction."
    " Set retention before the first start if a topic must keep more than the default."
)


@dataclass(frozen=True, slots=True)
class World:
    """What the command touches."""

    files: Files
    clock: Clock
    entropy: Entropy


def adopt(world: World, source: str, target: str, writer: RowWriter, *, may_act: bool) -> ExitCode:
    """FAILED if a topic that should have been adopted could not be."""
    files = world.files
    source, target = os.path.abspath(source), os.path.abspath(target)
    if not files.is_dir(source):
        raise Failure(f"{source} is no directory", exit_code=ExitCode.NOT_FOUND)
    in_place = is_same_directory(source, target)
    with ExitStack() as held:
        held.enter_context(_held(files, source, for_writing=in_place and may_act))
        found = survey(files, source)
        if not in_place:
            if may_act and not files.is_dir(target):
                files.make_dir(target)
            held.enter_context(_held(files, target, for_writing=may_act))
        plan = plan_adoption(found, known_image(files, target, world.clock))
        for row in plan.rows():
            writer.write(row)
        writer.close()
        if not plan.adopted:
            say("there is nothing to adopt")
            return ExitCode.OK
        if not may_act:
            say(_intention(plan, found, target, in_place=in_place))
            return ExitCode.OK
        return _Adoption(world, found, target, in_place=in_place).run(plan)


def _held(files: Files, directory: str, *, for_writing: bool) -> AbstractContextManager[None]:
    return (
        held_for_writing(files, directory) if for_writing else held_for_reading(files, [directory])
    )


def _intention(plan: Plan, found: Survey, target: str, *, in_place: bool) -> str:
    how = "where they are" if in_place else f"after they were copied to {target}"
    left = "stopped cleanly" if found.is_clean else "not stopped cleanly: it will be recovered"
    return (
        f"{found.path} is of node {found.meta.node_id} of cluster {found.meta.cluster_id}, {left}\n"
        f"{SETTINGS_NOTE}\n"
        f"nothing was changed: `--yes` adopts {len(plan.adopted)} topics {how}"
    )


class _Adoption:
    """Acts. Until a topic is entered in the metadata a repeat begins again and does no harm."""

    def __init__(self, world: World, found: Survey, target: str, *, in_place: bool) -> None:
        self._world = world
        self._found = found
        self._target = target
        self._in_place = in_place
        self._recovered: dict[TopicPartition, RecoveredPartition] = {}

    def run(self, plan: Plan) -> ExitCode:
        files = self._world.files
        meta = self._stamp()
        if not self._in_place:
            self._copy(plan)
        points = Points.of(files, self._target)
        whole = [topic for topic in plan.adopted if self._recover(topic, points)]
        points.write()
        enter_topics(
            files,
            self._target,
            self._world.clock,
            node_id=meta.node_id,
            topics=whole,
            recovered=self._recovered,
        )
        say(SETTINGS_NOTE)
        say(f"adopted {len(whole)} topics with {len(self._recovered)} partitions")
        return ExitCode.OK if len(whole) == len(plan.adopted) else ExitCode.FAILED

    def _stamp(self) -> MetaProperties:
        """Whose the target is: it keeps its name tag, or gets one of the same cluster."""
        files = self._world.files
        meta = MetaProperties.read(files, self._target)
        if meta is None:
            source = self._found.meta
            directory_id = str(Uuid(self._world.entropy.token(16)))
            meta = MetaProperties(source.cluster_id, source.node_id, directory_id)
            meta.write(files, self._target)
        return meta

    def _copy(self, plan: Plan) -> None:
        partitions = [one for topic in plan.adopted for one in topic.partitions]
        total_bytes = sum(one.size_bytes for one in partitions)
        with progress_of("copying", total_bytes) as advance:
            for one in partitions:
                copy_partition(self._world.files, one, self._target, advance)

    def _recover(self, topic: AdoptedTopic, points: Points) -> bool:
        """Whether all of a topic's partitions could be opened; if so they are noted."""
        files, clock = self._world.files, self._world.clock
        recovered = {}
        for one in topic.partitions:
            try:
                recovered[one.partition] = recover(files, points, self._found, one.partition, clock)
            except (StorageError, OSError) as error:
                say(f"not adopted: {topic.name}: {error}")
                say("  try: `ottla log verify --repair` on it, then adopt again")
                return False
            if because := recovered[one.partition].recovery.cut_because:
                say(f"recovered: {one.partition}: {because}")
        self._recovered |= recovered
        return True
