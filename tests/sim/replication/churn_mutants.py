"""Bugs to plant where topics are deleted and created, each with the failure that it must cause."""

import pytest

from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.image import Image
from ottla.metadata.records import TopicDeleted
from tests.sim.cluster.mutants import deleted_partitions_stay_where_they_are
from tests.sim.replication.mutants import Mutant

ABOVE_ANY_EPOCH = 1 << 30


def a_name_begins_at_epoch_0_again(patch: pytest.MonkeyPatch) -> None:
    """The image, which would refuse it, has forgotten the epochs, too."""
    deleting = False
    apply = Image._apply_topic_deleted

    def delete(self: Image, deleted: TopicDeleted) -> None:
        nonlocal deleting
        deleting = True
        apply(self, deleted)
        deleting = False

    patch.setattr(Image, "_apply_topic_deleted", delete)
    patch.setattr(Image, "first_epoch", lambda self, name: ABOVE_ANY_EPOCH if deleting else 0)
    patch.setattr(PendingTopics, "raise_first_epoch", lambda self, topic: [])


SEEDS = range(20)
CHURN_MUTANTS = (
    Mutant(deleted_partitions_stay_where_they_are, SEEDS, "invariant [235]: |was never sent there"),
    Mutant(a_name_begins_at_epoch_0_again, SEEDS, "invariant 13: .* has leader epoch"),
)
