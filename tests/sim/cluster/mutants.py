"""Bugs to plant in the brokers of a cluster, each with the failure that it is meant to cause."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ottla.broker.node import node
from ottla.metadata import controller_duties, incarnation, local_controller
from ottla.metadata import image as images
from ottla.metadata.controller import partition_update
from ottla.metadata.decision_queue import DecidedEntry
from ottla.metadata.image import Image
from ottla.metadata.publisher import Publisher
from ottla.metadata.records import Partition
from ottla.metadata.store import RegisteredBroker
from ottla.metadata.zookeeper import entries, snapshots
from ottla.metadata.zookeeper.layout import (
    HEAD,
    entry_path,
    write_entry,
    write_number,
)
from ottla.metadata.zookeeper.term import Term
from ottla.metadata.zookeeper.znodes import (
    ANY_VERSION,
    ConnectionLost,
    Create,
    Operation,
    Refused,
    SetData,
    Znodes,
)
from ottla.protocol.primitives import Uuid
from ottla.replication.replicas import Replicas
from ottla.storage.directory.directories import LogDirectories
from ottla.storage.opening import recovery
from tests.sim.broker.mutants import replies_overtake_one_another
from tests.sim.cluster.runs import run_losses, run_seed
from tests.sim.planted_bugs import PlantedBug


@dataclass(frozen=True, slots=True)
class Mutant(PlantedBug):
    """A planted bug, and what runs a seed."""

    run: Callable[[int], object] = run_seed


# The controller's decisions


def leader_epoch_is_not_raised(patch: pytest.MonkeyPatch) -> None:
    def in_the_same_epoch(before: Partition, after: Partition) -> Partition:
        if after == before:
            return before
        return replace(after, partition_epoch=before.partition_epoch + 1)

    patch.setattr(partition_update, "successor", in_the_same_epoch)
    # The image would refuse the record.
    patch.setattr(images, "_check_successor", lambda *args: None)


def partition_epoch_is_not_raised(patch: pytest.MonkeyPatch) -> None:
    successor = partition_update.successor

    def in_the_same_epoch(before: Partition, after: Partition) -> Partition:
        return replace(successor(before, after), partition_epoch=before.partition_epoch)

    patch.setattr(partition_update, "successor", in_the_same_epoch)
    patch.setattr(images, "_check_successor", lambda *args: None)


def elr_is_emptied_while_nobody_leads(patch: pytest.MonkeyPatch) -> None:
    settled = partition_update.settled

    def settled_without_elr(partition: Partition, brokers: Any) -> Partition:
        changed = settled(partition, brokers)
        return replace(changed, elr=()) if changed.leader is None else changed

    patch.setattr(partition_update, "settled", settled_without_elr)


def a_broker_is_up_before_its_partitions(patch: pytest.MonkeyPatch) -> None:
    """What it inherits is forgotten before its partitions name its epoch."""

    async def update_brokers(
        publisher: Publisher, registered: Sequence[RegisteredBroker], *, is_first: bool
    ) -> None:
        def record(image: Image) -> Any:
            records = controller_duties.membership_records(image, registered)
            fork = image.fork()
            for each in records:
                fork.apply(each)
            ups = [controller_duties.up_record(fork, each.broker_id) for each in records]
            return [*records, *(each for each in ups if each is not None)], None

        await publisher.commit(record)
        await controller_duties.update_partitions(publisher, None)

    patch.setattr(local_controller, "update_brokers", update_brokers)


# The metadata store


def a_loaded_image_forgets_deleted_names(patch: pytest.MonkeyPatch) -> None:
    of = Image.of.__func__  # type: ignore[attr-defined]

    def load(cls: type[Image], loaded: Any) -> Image:
        image: Image = of(cls, loaded)
        image._deleted_names.clear()
        return image

    patch.setattr(Image, "of", classmethod(load))


def a_deposed_controller_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """It appends to whatever head it finds."""

    async def append(znodes: Znodes, term: Term, entry: bytes) -> int:
        content = write_entry(term.fence.epoch, entry)
        while True:
            try:
                offset = await entries.read_head(znodes) + 1
                create = Create(entry_path(offset), content)
                await znodes.multi((create, SetData(HEAD, write_number(offset), ANY_VERSION)))
            except (ConnectionLost, Refused):
                continue
            return offset

    patch.setattr(entries, "append", append)


def a_snapshot_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """The controller looks once, when it begins, whether it is still the controller."""

    async def unfenced(znodes: Znodes, term: Term, *operations: Operation) -> bool:
        try:
            await znodes.multi(
                [
                    each._replace(version=ANY_VERSION) if isinstance(each, SetData) else each
                    for each in operations
                ]
            )
        except (ConnectionLost, Refused):
            return False
        return True

    patch.setattr(snapshots, "try_fenced", unfenced)


def an_unknown_outcome_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    async def give_up(znodes: Znodes, term: Term, offset: int, content: bytes) -> bool:
        raise term.fenced()

    patch.setattr(entries, "_is_committed", give_up)


def a_refused_decision_is_answered(patch: pytest.MonkeyPatch) -> None:
    """The controller learns that it was deposed, and answers as if it had committed."""
    patch.setattr(DecidedEntry, "fail", lambda self, error: self.answer())


# Brokers


def a_broker_does_not_register_again(patch: pytest.MonkeyPatch) -> None:
    async def stay(*args: Any) -> None:
        await asyncio.Event().wait()

    patch.setattr(node, "stay_registered", stay)


def any_earlier_incarnation_is_inherited(patch: pytest.MonkeyPatch) -> None:
    """Although the machine has lost its power."""
    patch.setattr(incarnation, "is_intact", lambda previous, boot_id: True)


def damaged_logs_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(node, "damaged_partitions", lambda replicas: [])


def a_log_is_not_marked_before_it_is_cut(patch: pytest.MonkeyPatch) -> None:
    """A start that is killed after the cut leaves a log that looks sound to the next one."""
    patch.setattr(recovery, "mark_cut", lambda files, directory: None)


def an_ex_replica_goes_on_leading(patch: pytest.MonkeyPatch) -> None:
    assign = Replicas._assign

    def keep(self: Replicas, topic: str, record: Partition, rules: Any) -> None:
        if self.me.broker_id in record.replicas:
            assign(self, topic, record, rules)

    patch.setattr(Replicas, "_assign", keep)


def deleted_partitions_stay_where_they_are(patch: pytest.MonkeyPatch) -> None:
    drop_topics = Replicas._drop_topics

    def drop_and_leave(self: Replicas, deleted: set[Uuid]) -> None:
        for replica in self.all:
            if replica.partition.topic_id in deleted:
                replica.log = None
        drop_topics(self, deleted)

    patch.setattr(Replicas, "_drop_topics", drop_and_leave)


def a_failed_directory_is_served_as_empty(patch: pytest.MonkeyPatch) -> None:
    settle_placements = LogDirectories.settle_placements

    def settle_and_ignore(*args: Any) -> set[Any]:
        settle_placements(*args)
        return set()

    patch.setattr(LogDirectories, "settle_placements", settle_and_ignore)


FEW, MANY, OF_LOSSES = range(20), range(60), range(40, 80)
MUTANTS = (
    Mutant(leader_epoch_is_not_raised, FEW, "invariant [17]: .* leader epoch"),
    Mutant(partition_epoch_is_not_raised, FEW, "invariant 7: .* partition epoch"),
    Mutant(elr_is_emptied_while_nobody_leads, FEW, "invariant (6|11)"),
    Mutant(a_broker_is_up_before_its_partitions, FEW, "possible losses without a cause"),
    Mutant(a_loaded_image_forgets_deleted_names, FEW, "invariant 7: the image of"),
    Mutant(a_deposed_controller_is_not_fenced, MANY, "written by a deposed controller"),
    Mutant(
        a_snapshot_is_not_fenced, MANY, "saved by a deposed controller|were saved in this order"
    ),
    Mutant(an_unknown_outcome_is_a_failure, range(80, 120), "its writer was told that it was not"),
    Mutant(a_refused_decision_is_answered, FEW, "a decision was answered, and is not"),
    Mutant(a_broker_does_not_register_again, MANY, "invariant (6|11)"),
    Mutant(any_earlier_incarnation_is_inherited, FEW, "UnreportedLoss", run_losses),
    Mutant(damaged_logs_are_not_told, FEW, "UnreportedLoss", run_losses),
    Mutant(a_log_is_not_marked_before_it_is_cut, OF_LOSSES, "UnreportedLoss", run_losses),
    Mutant(an_ex_replica_goes_on_leading, FEW, "invariant 1: .* in its own image"),
    Mutant(deleted_partitions_stay_where_they_are, FEW, "was never sent there"),
    Mutant(
        a_failed_directory_is_served_as_empty,
        MANY,
        "was (acknowledged|read) at|is out of range|were acknowledged",
    ),
    Mutant(replies_overtake_one_another, FEW, "a reply to request"),
)
