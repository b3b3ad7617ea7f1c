"""`ottla log adopt`: surveys a directory and shows a plan; then copies, recovers and registers."""

import os
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from ottla.cli.log.adopt.partition_copy import copy_partition
from ottla.cli.log.adopt.partition_recovery import (
    DirectoryCheckpoints,
    RecoveredPartition,
    recover_partition,
)
from ottla.cli.log.adopt.plan import AdoptedTopic, Plan, plan_adoption
from ottla.cli.log.adopt.registration import known_image, register_topics
from ottla.cli.log.adopt.survey import (
    DirectorySurvey,
    is_same_directory,
    survey_directory,
)
from ottla.cli.log.paths import locked_for_reading, locked_for_writing
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
    "note: topic settings are in Kafka's metadata and are not taken over, except compaction."
    " Set retention before the first start if a topic must keep more than the default."
)


@dataclass(frozen=True, slots=True)
class AdoptionSeams:
    """The seams of the command."""

    files: Files
    clock: Clock
    entropy: Entropy


def adopt(
    seams: AdoptionSeams, source: str, target: str, writer: RowWriter, *, may_act: bool
) -> ExitCode:
    """Returns FAILED if a topic of the plan could not be adopted."""
    files = seams.files
    source, target = os.path.abspath(source), os.path.abspath(target)
    if not files.is_dir(source):
        raise Failure(f"{source} is not a directory", exit_code=ExitCode.NOT_FOUND)
    in_place = is_same_directory(source, target)
    with ExitStack() as locks:
        locks.enter_context(_locked(files, source, for_writing=in_place and may_act))
        survey = survey_directory(files, source)
        if not in_place:
            if may_act and not files.is_dir(target):
                files.make_dir(target)
            locks.enter_context(_locked(files, target, for_writing=may_act))
        plan = plan_adoption(survey, known_image(files, target, seams.clock))
        for row in plan.rows():
            writer.write(row)
        writer.close()
        if not plan.adopted:
            say("there is no topic to adopt")
            return ExitCode.OK
        if not may_act:
            say(_dry_run_summary(plan, survey, target, in_place=in_place))
            return ExitCode.OK
        return _Adoption(seams, survey, target, in_place=in_place).run(plan)


def _locked(files: Files, directory: str, *, for_writing: bool) -> AbstractContextManager[None]:
    return (
        locked_for_writing(files, directory)
        if for_writing
        else locked_for_reading(files, [directory])
    )


def _dry_run_summary(plan: Plan, survey: DirectorySurvey, target: str, *, in_place: bool) -> str:
    how = "in place" if in_place else f"after copying them to {target}"
    meta = survey.meta
    shutdown = "clean shutdown" if survey.is_clean else "unclean shutdown: it will be recovered"
    return (
        f"{survey.path} is of node {meta.node_id} of cluster {meta.cluster_id}, {shutdown}\n"
        f"{SETTINGS_NOTE}\n"
        f"nothing was changed: `--yes` adopts {len(plan.adopted)} topics {how}"
    )


class _Adoption:
    """Executes a plan. Until a topic is registered in the metadata, a repeat is harmless."""

    def __init__(
        self, seams: AdoptionSeams, survey: DirectorySurvey, target: str, *, in_place: bool
    ) -> None:
        self._seams = seams
        self._survey = survey
        self._target = target
        self._in_place = in_place
        self._recovered: dict[TopicPartition, RecoveredPartition] = {}

    def run(self, plan: Plan) -> ExitCode:
        files = self._seams.files
        meta = self._write_meta_properties()
        if not self._in_place:
            self._copy(plan)
        checkpoints = DirectoryCheckpoints.of(files, self._target)
        whole = [topic for topic in plan.adopted if self._recover(topic, checkpoints)]
        checkpoints.write()
        register_topics(
            files,
            self._target,
            self._seams.clock,
            node_id=meta.node_id,
            topics=whole,
            recovered=self._recovered,
        )
        say(SETTINGS_NOTE)
        say(f"adopted {len(whole)} topics with {len(self._recovered)} partitions")
        return ExitCode.OK if len(whole) == len(plan.adopted) else ExitCode.FAILED

    def _write_meta_properties(self) -> MetaProperties:
        """The target's meta.properties; a new directory gets those of the source's cluster."""
        files = self._seams.files
        meta = MetaProperties.read(files, self._target)
        if meta is None:
            source = self._survey.meta
            directory_id = str(Uuid(self._seams.entropy.token(16)))
            meta = MetaProperties(source.cluster_id, source.node_id, directory_id)
            meta.write(files, self._target)
        return meta

    def _copy(self, plan: Plan) -> None:
        partitions = [partition for topic in plan.adopted for partition in topic.partitions]
        total_bytes = sum(partition.size_bytes for partition in partitions)
        with progress_of("copying", total_bytes) as advance:
            for partition in partitions:
                copy_partition(self._seams.files, partition, self._target, advance)

    def _recover(self, topic: AdoptedTopic, checkpoints: DirectoryCheckpoints) -> bool:
        """Whether all partitions of a topic could be recovered; if so, keeps their results."""
        files, clock = self._seams.files, self._seams.clock
        recovered = {}
        for partition in topic.partitions:
            try:
                recovered[partition.partition] = recover_partition(
                    files, checkpoints, self._survey, partition.partition, clock
                )
            except (StorageError, OSError) as error:
                say(f"not adopted: {topic.name}: {error}")
                say("  try: `ottla log verify --repair` on its directory, then adopt again")
                return False
            if because := recovered[partition.partition].recovery.cut_because:
                say(f"recovered: {partition.partition}: {because}")
        self._recovered |= recovered
        return True
