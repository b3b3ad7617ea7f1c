"""Every broker reports leaders that may have lost records, as the records say."""

from dataclasses import replace

from ottla.broker.http.health import Condition
from ottla.broker.node.possible_losses import NAMED_PARTITIONS_MAX, PossibleLosses
from ottla.metadata.image import Image
from ottla.metadata.records import DeletedName, Partition, Record, Topic, TopicDeleted
from ottla.metadata.store import Entry
from ottla.metrics.node import NodeMetrics
from tests.sim.seams.loop import run
from tests.support.broker.simulated_broker import Machine, Notes, create, new_topic
from tests.support.metadata.sample_records import partition, topic_id

WARNING = "possible data loss"


class World:
    """A broker's image, and what it reports."""

    def __init__(self, *, is_controller: bool = False) -> None:
        self.image = Image()
        self.metrics = NodeMetrics()
        self.warnings = Condition()
        self.notes = Notes()
        self.losses = PossibleLosses(self.metrics, self.warnings, self.notes, lambda: is_controller)

    def apply(self, *records: Record) -> None:
        for record in records:
            self.image.apply(record)
        self.losses.follow(self.image, Entry(0, records))

    def change(self, before: Partition, **fields: object) -> Partition:
        after = replace(before, partition_epoch=before.partition_epoch + 1, **fields)
        self.apply(after)
        return after

    @property
    def logged(self) -> list[str]:
        return self.notes.events("warning")

    @property
    def counted(self) -> tuple[int, int]:
        return self.metrics.broker.possible_data_losses, self.metrics.controller.unclean_elections


def lost(index: int = 0, epoch: int = 2) -> Partition:
    return partition(index=index, leader_epoch=epoch, possible_loss_epoch=epoch)


def test_a_loss_is_reported_once_and_shown_until_all_replicas_are_in_sync() -> None:
    world = World()
    world.apply(Topic("orders", topic_id(1)), lost())
    assert (world.logged, world.counted) == ([WARNING], (1, 0))
    (reason,) = world.warnings.reasons
    assert reason.startswith(f"{WARNING}: ")
    assert reason.endswith("orders-0")

    same = world.change(lost(), isr=lost().isr[:1])
    assert (world.logged, world.counted) == ([WARNING], (1, 0))
    world.change(same, possible_loss_epoch=None)
    assert world.warnings.reasons == []
    assert world.counted == (1, 0)


def test_a_second_loss_of_a_partition_is_another_one() -> None:
    world = World(is_controller=True)
    world.apply(Topic("orders", topic_id(1)), lost(epoch=2))
    world.change(lost(epoch=2), leader=None, isr=(), leader_epoch=3)
    world.change(replace(lost(epoch=2), partition_epoch=1), leader_epoch=4, possible_loss_epoch=4)
    assert world.counted == (2, 2)
    assert len(world.warnings.reasons) == 1


def test_a_deleted_topic_has_no_losses() -> None:
    world = World()
    world.apply(Topic("orders", topic_id(1)), lost())
    world.apply(DeletedName("orders", 9), TopicDeleted(topic_id(1), "orders"))
    assert world.warnings.reasons == []


def test_the_losses_of_an_image_are_shown_and_not_counted() -> None:
    """They were, if a broker was there. If all died at once, this is the only report."""
    world = World()
    for record in (Topic("orders", topic_id(1)), lost(), partition(index=1)):
        world.image.apply(record)
    world.losses.load(world.image)
    assert world.logged == ["possible data loss before the start"]
    assert world.counted == (0, 0)
    assert world.warnings.reasons[0].endswith("orders-0")
    world.change(lost(), isr=lost().isr[:1])
    assert len(world.logged) == 1


def test_the_page_names_some_partitions_and_counts_the_others() -> None:
    world = World()
    world.apply(Topic("orders", topic_id(1)), *map(lost, range(NAMED_PARTITIONS_MAX + 3)))
    (reason,) = world.warnings.reasons
    assert reason.endswith(f"orders-{NAMED_PARTITIONS_MAX - 1} and 3 more")


def test_the_counter_has_its_name_in_the_metrics() -> None:
    world = World()
    world.apply(Topic("orders", topic_id(1)), lost())
    page = b"".join(world.metrics.render())
    assert b"ottla_possible_data_loss_total 1" in page


def test_a_node_shows_at_its_start_what_nobody_may_have_reported() -> None:
    """It was killed right after the commit, with all others."""
    machine = Machine()

    async def story() -> None:
        await machine.node().start()
        await create(await machine.client(), new_topic("orders"))
        machine.disk.power_loss()
        machine.net.crash()
        node = machine.node()
        await node.start()
        assert machine.notes.events("warning") == [WARNING]
        assert len(node.health.warnings.reasons) == 1
        await node.stop()
        async with machine.broker():
            assert machine.notes.events("warning") == [WARNING, f"{WARNING} before the start"]

    run(story(), clock=machine.clock)
