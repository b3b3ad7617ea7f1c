"""What a start finds on disk and nobody knows is set aside, and nothing else is."""

import errno
from dataclasses import replace

import pytest

from ottla.metadata import records
from ottla.metadata.image import Image
from ottla.metadata.values import Incarnation
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.local_broker import LocalBroker
from ottla.replication.replicas import Replicas
from ottla.storage.directory.directories import LogDirectories
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.support.replication.partitions import ME, RULES, Partitions, topic_id
from tests.support.storage.workbench import fill
from tests.unit.storage.directory.test_directory import open_at

NAME = TopicPartition("events", 0)
OLD, NEW = topic_id(1), topic_id(2)


def partition_of_new(leader_epoch: int = 0) -> records.Partition:
    return records.Partition(
        topic_id=NEW,
        index=0,
        replicas=(ME.broker_id,),
        leader=ME,
        leader_epoch=leader_epoch,
        isr=(ME,),
        min_isr=1,
        partition_epoch=0,
    )


def image_of_new() -> Image:
    image = Image()
    image.apply(records.Topic(NAME.topic, NEW))
    image.apply(partition_of_new())
    return image


@pytest.mark.parametrize("old_home", ["/a", "/b"])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_partition_whose_deletion_failed_does_not_take_its_successor_with_it(
    old_home: str, is_damaged: bool
) -> None:
    """The disk of one directory failed while the topic was deleted; it was made anew on another."""
    disk = SimDisk(0)
    files = disk.process()
    for path in ("/a", "/b"):
        files.make_dir(path)
        directory = open_at(files, path)
        is_old = path == old_home
        log = directory.create(NAME, OLD if is_old else NEW)
        fill(log, 5 if is_old else 2)
        directory.close(broker_epoch=1)
    if is_damaged:
        files.remove(f"{old_home}/.kafka_cleanshutdown")
        file = files.open(f"{old_home}/{NAME}/00000000000000000000.log")
        file.truncate(10)
        file.close()

    directories = LogDirectories([open_at(files, path) for path in ("/a", "/b")], {})
    replicas = Replicas(
        directories=directories,
        me=LocalBroker(ME.broker_id, "me", ME),
        rules_of=lambda _image, _topic: RULES,
        entropy=SimEntropy(),
        start_writeback=lambda _file, _position, _size: True,
    )
    strays = replicas.load(image_of_new())

    replica = replicas.get(NEW, 0)
    assert replica is not None
    assert (replica.end_offset, replica.is_unusable) == (2, False)
    assert strays == [NAME]
    assert [name for name in files.list(old_home) if name.endswith("-stray")]


@pytest.mark.parametrize(("first_epoch", "is_stray"), [(0, False), (1, True)])
def test_a_log_that_lost_its_topic_id_is_not_given_to_a_later_topic_of_its_name(
    first_epoch: int, is_stray: bool
) -> None:
    """Epochs of a recreated topic begin above those of the deleted one."""
    files = SimDisk(0).process()
    files.make_dir("/a")
    directory = open_at(files, "/a")
    fill(directory.create(NAME, OLD), 5)
    directory.close(broker_epoch=1)
    files.remove(f"/a/{NAME}/partition.metadata")
    image = Image()
    if first_epoch:
        image.apply(records.DeletedName(NAME.topic, first_epoch))
    image.apply(records.Topic(NAME.topic, NEW))
    image.apply(partition_of_new(leader_epoch=first_epoch))
    replicas = Replicas(
        directories=LogDirectories([open_at(files, "/a")], {}),
        me=LocalBroker(ME.broker_id, "me", ME),
        rules_of=lambda _image, _topic: RULES,
        entropy=SimEntropy(),
        start_writeback=lambda _file, _position, _size: True,
    )
    assert replicas.load(image) == ([NAME] if is_stray else [])
    replica = replicas.get(NEW, 0)
    assert replica is not None
    assert replica.end_offset == (0 if is_stray else 5)


def test_a_topic_that_is_deleted_and_made_again_by_one_entry_begins_anew() -> None:
    partitions = Partitions()
    old = partitions.create("events")
    partitions.append(old, b"old")
    before = partitions.image.partition(old.partition.topic_id, 0)
    assert before is not None
    partitions.commit(
        records.DeletedName("events", 1),
        records.TopicDeleted(before.topic_id, "events"),
        records.Topic("events", topic_id(9)),
        replace(before, topic_id=topic_id(9), leader_epoch=1),
    )
    new = partitions.find("events")
    assert (new.partition.topic_id, new.log) == (topic_id(9), None)
    assert partitions.append(new, b"new").first_offset == 0


@pytest.mark.parametrize("fails_before", [True, False])
def test_a_topic_that_could_not_be_deleted_does_not_give_its_log_to_the_next(
    fails_before: bool,
) -> None:
    """Its log directory is offline, or fails with the deletion. The next start finds a stray."""
    partitions = Partitions()
    old = partitions.create("events")
    partitions.append(old, b"old")
    (directory,) = partitions.replicas.directories.directories
    if fails_before:
        directory.fail(OSError(errno.EIO, "gone"))
    else:
        partitions.disk.faults.fail_next("rename", f"{directory.path}/*")
    partitions.delete(old)
    assert directory.offline is not None
    new = partitions.create("events")
    assert new is not old
    assert (new.log, new.high_watermark, new.is_unusable) == (None, 0, False)


def test_a_follower_that_loses_its_session_still_knows_the_leader() -> None:
    """No record of the metadata log would tell it again: nothing has changed for the partition."""
    partitions = Partitions()
    led, followed = partitions.create("led"), partitions.create("followed")
    before = partitions.image.partition(followed.partition.topic_id, 0)
    assert before is not None
    other = Incarnation(ME.broker_id + 1, 70)
    partitions.commit(
        replace(
            before,
            replicas=(ME.broker_id, other.broker_id),
            leader=other,
            leader_epoch=before.leader_epoch + 1,
            isr=(other,),
            partition_epoch=before.partition_epoch + 1,
        )
    )
    assert (led.partition.is_leader, followed.partition.is_leader) == (True, False)
    partitions.replicas.lose_session(ME.broker_epoch)
    assert (led.partition.is_leader, led.partition.leader) == (False, None)
    assert followed.partition.leader == other


def test_another_isr_wakes_no_follower_and_another_leader_does() -> None:
    """When a broker dies, the ISRs of thousands of partitions change at once."""
    partitions = Partitions()
    replica = partitions.create("events")
    other = Incarnation(ME.broker_id + 1, 70)
    partitions.change(replica, replicas=(ME.broker_id, other.broker_id))
    woken: list[str] = []

    class Watcher:
        def __init__(self, name: str) -> None:
            self._name = name

        def count(self, amount: int) -> None:
            pytest.fail(f"{amount} bytes")

        def wake(self) -> None:
            woken.append(self._name)

    replica.waiting.enter(Watcher("consumer"))
    replica.waiting_followers.enter(Watcher("follower"))
    partitions.change(replica, isr=(ME, other))
    assert woken == ["consumer"], "DeleteRecords waits there for the replicas in sync"
    woken.clear()
    partitions.change(replica, leader=other)
    assert set(woken) == {"consumer", "follower"}
