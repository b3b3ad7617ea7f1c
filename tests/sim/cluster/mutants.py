"""Bugs to plant in the brokers of a cluster, each with the failure that it is meant to cause."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ottla.broker.net.connection import Connection
from ottla.metadata import image as images
from ottla.metadata.controller import broker_restart
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.values import Incarnation
from ottla.protocol.primitives import Uuid
from ottla.replication.replicas import Replicas
from ottla.storage.directory.directories import LogDirectories
from tests.sim.metadata_store import SimMetadataStore

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug, the seeds one of which must meet it, and a pattern of the failure that counts."""

    plant: Plant
    seeds: range
    failure: str

    @property
    def name(self) -> str:
        return self.plant.__name__

    def is_found_by(self, reason: str) -> bool:
        return re.search(self.failure, reason) is not None


def leader_epoch_is_not_raised_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    rejoin = broker_restart.rejoin

    def rejoin_in_the_same_epoch(
        partition: Partition, me: Incarnation, inherits: Collection[int]
    ) -> broker_restart.Rejoined:
        changed, may_have_lost = rejoin(partition, me, inherits)
        return broker_restart.Rejoined(
            replace(changed, leader_epoch=partition.leader_epoch), may_have_lost
        )

    patch.setattr(broker_restart, "rejoin", rejoin_in_the_same_epoch)
    # The image would refuse the record.
    patch.setattr(images, "_check_successor", lambda *args: None)


def partition_epoch_is_not_raised_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    rejoined = broker_restart.partitions_rejoined

    def rejoined_in_the_same_epoch(*args: Any) -> broker_restart.Restart:
        restart = rejoined(*args)
        records = [
            replace(each, partition_epoch=each.partition_epoch - 1)
            if isinstance(each, Partition)
            else each
            for each in restart.records
        ]
        return restart._replace(records=records)

    patch.setattr(broker_restart, "partitions_rejoined", rejoined_in_the_same_epoch)
    patch.setattr(images, "_check_successor", lambda *args: None)


def a_loaded_image_forgets_deleted_names(patch: pytest.MonkeyPatch) -> None:
    of = Image.of.__func__  # type: ignore[attr-defined]

    def load(cls: type[Image], loaded: Any) -> Image:
        image: Image = of(cls, loaded)
        image._deleted_names.clear()
        return image

    patch.setattr(Image, "of", classmethod(load))


def a_deposed_controller_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimMetadataStore, "_require_newest", lambda self, fence: None)


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


def replies_overtake_one_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "_is_busy", property(lambda self: False))


MUTANTS = (
    Mutant(leader_epoch_is_not_raised_at_a_restart, range(20), "invariant [17]: .* leader epoch"),
    Mutant(
        partition_epoch_is_not_raised_at_a_restart, range(20), "invariant 7: .* partition epoch"
    ),
    Mutant(a_loaded_image_forgets_deleted_names, range(20), "invariant 7: the image of"),
    Mutant(
        a_deposed_controller_is_not_fenced,
        range(40),
        "RuleBroken|invariant 7",
    ),
    Mutant(deleted_partitions_stay_where_they_are, range(20), "was never sent there"),
    Mutant(
        a_failed_directory_is_served_as_empty,
        range(20),
        "was (acknowledged|read) at|is out of range|were acknowledged",
    ),
    Mutant(replies_overtake_one_another, range(20), "a reply to request"),
)
