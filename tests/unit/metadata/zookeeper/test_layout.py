"""The data of the nodes in ZooKeeper."""

from dataclasses import replace

import pytest

from ottla.metadata.entry_codec import ENTRY_BYTES_MAX, CorruptEntry, EntryTooLarge, encode
from ottla.metadata.values import PartitionId
from ottla.metadata.zookeeper import layout
from ottla.metadata.zookeeper.layout import SnapshotPointer
from tests.support.metadata.sample_records import ONE_OF_EACH, registration, topic_id


def test_a_registration_is_read_as_it_was_written() -> None:
    full = replace(
        registration(7),
        incarnation_id="a",
        damaged=(PartitionId(topic_id(1), 3),),
        replaces=("b", "c"),
        is_draining=True,
        rack="r1",
    )
    for each in (registration(), full):
        assert layout.read_registration("/brokers/7", layout.write_registration(each)) == each


def test_a_registration_that_the_servers_might_refuse_is_not_sent() -> None:
    damaged = tuple(PartitionId(topic_id(1), index) for index in range(ENTRY_BYTES_MAX // 30))
    with pytest.raises(EntryTooLarge):
        layout.write_registration(replace(registration(), damaged=damaged))


def test_an_entry_is_read_as_it_was_written_and_differs_between_controllers() -> None:
    entry = encode(ONE_OF_EACH)
    assert layout.read_entry("/log/e1", layout.write_entry(12, entry)) == ONE_OF_EACH
    assert layout.write_entry(12, entry) != layout.write_entry(13, entry)


@pytest.mark.parametrize("content", [b"", b"{}", b"\n{}", b"x\n" + encode(()), b"3\n{", b"-1\n{}"])
def test_other_bytes_are_no_entry(content: bytes) -> None:
    with pytest.raises(CorruptEntry, match="/log/e1"):
        layout.read_entry("/log/e1", content)


def test_a_snapshot_supersedes_its_entries_and_all_other_chunks() -> None:
    children = ("e3", "e4", "e5", "e10", "head", "s2-0", "s4-0", "s4-1", "s10-0", "snapshot", "x")
    assert layout.superseded(children, SnapshotPointer(4, 2)) == [
        "/log/e3",
        "/log/e4",
        "/log/s2-0",
        "/log/s10-0",
    ]
    assert layout.superseded(children, SnapshotPointer(None, 0)) == [
        "/log/s2-0",
        "/log/s4-0",
        "/log/s4-1",
        "/log/s10-0",
    ]


def test_numbers_and_pointers_are_read_as_they_were_written() -> None:
    for number in (-1, 0, 2**63 - 1):
        assert layout.read_number("/log/head", layout.write_number(number)) == number
    for pointer in (SnapshotPointer(None, 0), SnapshotPointer(0, 0), SnapshotPointer(9, 3)):
        assert layout.read_pointer(layout.write_pointer(pointer)) == pointer
    for content in (b"", b"-2", b"1.0", b"\xd9\xa1", b"1\n"):
        with pytest.raises(CorruptEntry):
            layout.read_number("/log/head", content)


def test_the_cluster_id_has_a_format() -> None:
    assert layout.read_cluster_id(layout.write_cluster_id("abc")) == "abc"
    with pytest.raises(CorruptEntry, match="format 2"):
        layout.read_cluster_id(b'{"cluster_id":"abc","format":2}')
