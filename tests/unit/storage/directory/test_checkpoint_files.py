from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import CorruptLog
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import RealFiles
from ottla.storage.directory.checkpoint_files import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
    parse_directory_name,
    read_clean_shutdown,
    read_offsets,
    read_partition_metadata,
    remove_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
    write_partition_metadata,
)
from tests.support.storage.recorded_log_files import CASES, expected, files_of

FILES = RealFiles()
OFFSET_FILES = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


class WatchedFiles(RealFiles):
    """Remembers in which order names change and become durable."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def rename(self, source: str, target: str) -> None:
        self.calls.append("rename")
        super().rename(source, target)

    def remove(self, path: str) -> None:
        super().remove(path)
        self.calls.append("remove")

    def sync_dir(self, path: str) -> None:
        self.calls.append("sync_dir")
        super().sync_dir(path)


# Names


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", TopicPartition("orders", 0)),
        ("orders-eu-12", TopicPartition("orders-eu", 12)),
        ("a.b_c-7-3", TopicPartition("a.b_c-7", 3)),
        ("__consumer_offsets-49", TopicPartition("__consumer_offsets", 49)),
    ],
)
def test_a_directory_is_named_by_topic_and_partition(name: str, partition: TopicPartition) -> None:
    assert parse_directory_name(name) == partition
    assert str(partition) == name


@pytest.mark.parametrize(
    "name",
    [
        "orders",
        "orders-",
        "-0",
        "orders-01",
        "orders-+1",
        "orders-٣",
        "orders-0\n",
        "or ders-0",
        "orders-0.b3a1c9d2e4f54c6f8a7b9c0d1e2f3a4b-delete",
        "orders-0.b3a1c9d2e4f54c6f8a7b9c0d1e2f3a4b-stray",
        "meta.properties",
        f"{'x' * 250}-0",
    ],
)
def test_other_names_are_no_partitions(name: str) -> None:
    assert parse_directory_name(name) is None


# An offset for each partition


def test_a_missing_file_has_no_offsets(tmp_path: Path) -> None:
    assert read_offsets(FILES, f"{tmp_path}/recovery-point-offset-checkpoint") == {}


def test_offsets_are_written_in_the_order_of_their_names(tmp_path: Path) -> None:
    path = f"{tmp_path}/recovery-point-offset-checkpoint"
    offsets = {TopicPartition("b", 0): 5, TopicPartition("a", 10): 2**62, TopicPartition("a", 9): 0}
    write_offsets(FILES, path, offsets)
    assert Path(path).read_bytes() == b"0\n3\na 9 0\na 10 4611686018427387904\nb 0 5\n"
    assert read_offsets(FILES, path) == offsets


def test_no_offsets_are_a_file_with_a_count_of_zero(tmp_path: Path) -> None:
    path = f"{tmp_path}/cleaner-offset-checkpoint"
    write_offsets(FILES, path, {})
    assert Path(path).read_bytes() == b"0\n0\n"
    assert read_offsets(FILES, path) == {}


def test_every_offset_file_that_kafka_wrote_is_read(tmp_path: Path) -> None:
    seen = 0
    for case in CASES:
        for name in OFFSET_FILES:
            text = expected(case)["rootFiles"].get(name)
            if text is None:
                continue
            path = tmp_path / name
            path.write_text(text)
            offsets = read_offsets(FILES, str(path))
            lines = [f"{topic} {partition} {at}" for (topic, partition), at in offsets.items()]
            assert lines == text.splitlines()[2:]
            write_offsets(FILES, str(path), offsets)
            assert sorted(path.read_text().splitlines()) == sorted(text.splitlines())
            seen += 1
    assert seen == 40


def test_an_offset_file_is_replaced_and_then_made_durable(tmp_path: Path) -> None:
    files = WatchedFiles()
    write_offsets(files, f"{tmp_path}/x-checkpoint", {})
    assert files.calls == ["rename", "sync_dir"]
    assert [path.name for path in tmp_path.iterdir()] == ["x-checkpoint"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("1\n0\n", 1),
        ("0\nmany\n", 2),
        ("0\n1\n", 2),
        ("0\n1\ntopic 0\n", 3),
        ("0\n1\ntopic 0 -1\n", 3),
        ("0\n1\ntopic x 1\n", 3),
        ("0\n1\nto/pic 0 1\n", 3),
        ("0\n2\ntopic 0 1\ntopic 0 1\n", 4),
        ("0\n2\ntopic 0 1\n\n", 4),
    ],
)
def test_a_garbled_offset_file_is_named_with_its_line(
    tmp_path: Path, content: str, line: int
) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text(content)
    with pytest.raises(CorruptLog, match=rf"{path}, byte \d+: line {line}: "):
        read_offsets(FILES, str(path))


names = st.builds(
    TopicPartition,
    st.text("abcXYZ019._-", min_size=1, max_size=20),
    st.integers(0, 2**31 - 1),
)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.dictionaries(names, st.integers(0, 2**63 - 1), max_size=20))
def test_offsets_survive_the_file(
    tmp_path_factory: pytest.TempPathFactory, offsets: dict[TopicPartition, int]
) -> None:
    path = str(tmp_path_factory.getbasetemp() / "offsets")
    write_offsets(FILES, path, offsets)
    assert read_offsets(FILES, path) == offsets
    assert all(parse_directory_name(str(name)) == name for name in offsets)


# meta.properties


def test_kafkas_meta_properties_are_read_with_comments_in_any_order(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text(expected("records")["rootFiles"][META_PROPERTIES])
    assert MetaProperties.read(FILES, str(tmp_path)) == MetaProperties(
        cluster_id="VecTorsVecTorsVecTorsA", node_id=1, directory_id="u2ga3Bxj7UHaE6Q1TdyLmw"
    )


def test_meta_properties_survive_the_file(tmp_path: Path) -> None:
    assert MetaProperties.read(FILES, str(tmp_path)) is None
    for written in (MetaProperties("cluster", 3, "directory"), MetaProperties("cluster", 3)):
        written.write(FILES, str(tmp_path))
        assert MetaProperties.read(FILES, str(tmp_path)) == written


def test_meta_properties_of_kafkas_zookeeper_days_are_read(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text("broker.id=4\nversion=0\ncluster.id=a\\=b\n")
    assert MetaProperties.read(FILES, str(tmp_path)) == MetaProperties("a=b", 4)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "node.id=1\ncluster.id=c\n",
        "version=2\nnode.id=1\ncluster.id=c\n",
        "version=1\ncluster.id=c\n",
        "version=1\nnode.id=one\ncluster.id=c\n",
        "version=1\nnode.id=1\n",
        "version=1\nnode.id=1\ncluster.id=\n",
    ],
)
def test_meta_properties_that_do_not_say_whose_they_are_are_refused(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / META_PROPERTIES).write_text(content)
    with pytest.raises(CorruptLog, match=META_PROPERTIES):
        MetaProperties.read(FILES, str(tmp_path))


# partition.metadata


def test_kafkas_topic_ids_are_read_and_written_alike(tmp_path: Path) -> None:
    path = tmp_path / PARTITION_METADATA
    seen = 0
    for case in CASES:
        for name, content in files_of(case).items():
            if not name.endswith(PARTITION_METADATA):
                continue
            path.write_bytes(content)
            topic_id = read_partition_metadata(FILES, str(tmp_path))
            assert topic_id is not None
            assert content.endswith(str(topic_id).encode())
            write_partition_metadata(FILES, str(tmp_path), topic_id)
            assert path.read_bytes() == content
            seen += 1
    assert seen == 55


def test_a_directory_without_a_topic_id_has_none(tmp_path: Path) -> None:
    assert read_partition_metadata(FILES, str(tmp_path)) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "version: 1\ntopic_id: NQD9BlJKSJSKOBW1iH9ZAQ",
        "version: 0\n",
        "version: 0\ntopic_id: ",
        "version: 0\ntopic_id: NQD9BlJKSJSKOBW1iH9Z",
        "version: 0\ntopic_id: ????????????????????????",
        "version: 0\ntopic: NQD9BlJKSJSKOBW1iH9ZAQ",
        "version: 0\ntopic_id: NQD9BlJKSJSKOBW1iH9ZAQ\nmore: 1",
    ],
)
def test_a_garbled_topic_id_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / PARTITION_METADATA).write_text(content)
    with pytest.raises(CorruptLog, match=PARTITION_METADATA):
        read_partition_metadata(FILES, str(tmp_path))


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.binary(min_size=16, max_size=16))
def test_topic_ids_survive_the_file(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    directory = str(tmp_path_factory.getbasetemp())
    write_partition_metadata(FILES, directory, Uuid(raw))
    assert read_partition_metadata(FILES, directory) == raw


# The sign of a clean stop


def test_a_clean_stop_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    write_clean_shutdown(FILES, str(tmp_path), 192)
    assert (tmp_path / CLEAN_SHUTDOWN).read_bytes() == files_of("records")[CLEAN_SHUTDOWN]
    assert read_clean_shutdown(FILES, str(tmp_path)) == 192


def test_without_the_sign_the_stop_was_not_clean(tmp_path: Path) -> None:
    assert read_clean_shutdown(FILES, str(tmp_path)) is None


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"7", b'{"brokerEpoch":"7"}', b'{"brokerEpoch":true}', b"\xff{"]
)
def test_an_unreadable_sign_is_no_clean_stop(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CLEAN_SHUTDOWN).write_bytes(content)
    assert read_clean_shutdown(FILES, str(tmp_path)) is None


def test_the_sign_is_gone_for_good_before_anything_is_written(tmp_path: Path) -> None:
    write_clean_shutdown(FILES, str(tmp_path), 7)
    files = WatchedFiles()
    remove_clean_shutdown(files, str(tmp_path))
    assert files.calls == ["remove", "sync_dir"]
    assert read_clean_shutdown(FILES, str(tmp_path)) is None
    remove_clean_shutdown(files, str(tmp_path))
    assert list(tmp_path.iterdir()) == []
