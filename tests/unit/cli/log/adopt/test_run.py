"""`ottla log adopt`: takes over all topics of a directory that Kafka wrote."""

import shutil
from pathlib import Path

import pytest

from ottla.cli.log.adopt.registration import known_image
from ottla.metadata.image import Image
from ottla.metadata.incarnation import inherited_ids, read_incarnation
from ottla.metadata.values import ResourceKind
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from ottla.storage.directory.checkpoint_files import META_PROPERTIES, parse_directory_name
from tests.support.cli.run_command import Ran, contents, ottla
from tests.support.disk_vectors import consume, expected, open_unpacked, record_as_expected, unpack

KAFKAS_METADATA = "__cluster_metadata-0"


def adopt(source: Path, data: Path, *, yes: bool = True) -> Ran:
    options = ["--yes"] if yes else []
    return ottla("log", "adopt", source, "--data", data, *options, "-o", "jsonl")


def image_of(data: Path) -> Image:
    return known_image(RealFiles(), str(data), RealClock())


def assert_all_is_served(case: str, data: Path) -> None:
    """A start finds every partition with the records that Kafka's own consumer read."""
    opened = open_unpacked(data)
    assert opened.unusable == {}
    for name, wanted in expected(case)["consumer"]["read_committed"].items():
        partition = parse_directory_name(name)
        assert partition is not None
        log = opened.logs[partition]
        assert log.start_offset == wanted["beginningOffset"]
        if "note" not in wanted:
            found = [record_as_expected(record) for _, record in consume(log, committed=True)]
            assert [record["offset"] for record in found] == [
                record["offset"] for record in wanted["records"]
            ]


def test_the_plan_names_topics_and_changes_nothing(tmp_path: Path) -> None:
    source = unpack("transactions", tmp_path)
    before = contents(source)
    ran = adopt(source, tmp_path / "data", yes=False)
    assert ran.exit_code == 0
    assert ran.rows == [
        {
            "kind": "topic",
            "topic": "transactions",
            "action": "adopt",
            "topic_id": "NQD9BlJKSJSKOBW1iH9ZAQ",
            "partitions": 2,
            "bytes": 124 + 7_968 + 72 + 2_448,
            "offsets": 130 + 32,
            "compacted": False,
        }
    ]
    assert "nothing was changed" in ran.stderr
    assert contents(source) == before
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("case", ["transactions", "segments", "killed"])
def test_a_directory_is_copied_and_the_source_stays_as_it_is(case: str, tmp_path: Path) -> None:
    source, data = unpack(case, tmp_path), tmp_path / "data"
    stamps = {path: path.stat().st_mtime_ns for path in source.rglob("*")}
    assert adopt(source, data).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in source.rglob("*")} == stamps
    topics = {row["topic"] for row in adopt(source, tmp_path / "other", yes=False).rows_of("topic")}
    assert set(image_of(data).topic_names) == topics
    assert not (data / KAFKAS_METADATA).exists()
    assert ottla("log", "verify", data).exit_code == 0
    assert_all_is_served(case, data)


@pytest.mark.parametrize("case", ["codecs", "internal", "killed"])
def test_in_place_nothing_is_copied_and_kafkas_metadata_is_left_alone(
    case: str, tmp_path: Path
) -> None:
    data = unpack(case, tmp_path)
    meta = (data / META_PROPERTIES).read_bytes()
    metadata = contents(data / KAFKAS_METADATA)
    assert adopt(data, data).exit_code == 0
    assert (data / META_PROPERTIES).read_bytes() == meta
    assert contents(data / KAFKAS_METADATA) == metadata
    assert_all_is_served(case, data)


def test_topic_ids_partitions_and_epochs_are_kept(tmp_path: Path) -> None:
    data = unpack("killed", tmp_path)
    adopt(data, data)
    image = image_of(data)
    topic = image.topic("transactions")
    assert topic is not None
    assert str(topic.topic_id) == "NQD9BlJKSJSKOBW1iH9ZAQ"
    partitions = image.partitions(topic.topic_id)
    assert [(one.index, one.replicas, one.leader) for one in partitions] == [
        (0, (1,), None),
        (1, (1,), None),
    ]
    # The next leader epoch is above all of Kafka's epochs, written or not.
    assert [one.leader_epoch for one in partitions] == [4, 4]
    assert image.next_producer_id == 2_001
    assert image.configs(ResourceKind.TOPIC, "compacted") == {"cleanup.policy": "compact"}
    assert image.configs(ResourceKind.TOPIC, "records") == {}


def test_the_broker_inherits_the_adopted_partitions(tmp_path: Path) -> None:
    data = unpack("records", tmp_path)
    adopt(data, data)
    saved = read_incarnation(RealFiles(), str(data))
    image = image_of(data)
    broker = image.brokers[1]
    assert inherited_ids(saved, "another boot") == (broker.incarnation_id,)
    for name in image.topic_names:
        topic = image.topic(name)
        assert topic is not None
        assert image.partitions(topic.topic_id)[0].isr == (broker.incarnation,)


def test_a_repeat_does_nothing_new(tmp_path: Path) -> None:
    source, data = unpack("records", tmp_path), tmp_path / "data"
    adopt(source, data)
    before, image = contents(data), image_of(data)
    ran = adopt(source, data)
    assert ran.exit_code == 0
    assert {row["action"] for row in ran.rows} == {"none"}
    assert "no topic to adopt" in ran.stderr
    assert image_of(data) == image
    assert contents(data).keys() == before.keys()


def test_a_second_directory_can_be_adopted_into_the_same_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for case in ("records", "idempotent"):
        assert adopt(unpack(case, tmp_path), data).exit_code == 0
    assert {"records", "idempotent"} <= set(image_of(data).topic_names)
    image = image_of(data)
    topic = image.topic("idempotent")
    assert topic is not None
    (partition,) = image.partitions(topic.topic_id)
    assert partition.isr == (image.brokers[1].incarnation,)


def test_an_unfinished_copy_is_begun_again(tmp_path: Path) -> None:
    source, data = unpack("records", tmp_path), tmp_path / "data"
    unfinished = data / "records-0.adopting"
    unfinished.mkdir(parents=True)
    (unfinished / "00000000000000000000.log").write_bytes(b"half of it")
    assert adopt(source, data).exit_code == 0
    assert not unfinished.exists()
    assert_all_is_served("records", data)


def test_topics_that_cannot_be_adopted_are_skipped_with_the_reason(tmp_path: Path) -> None:
    source, data = unpack("internal", tmp_path), tmp_path / "data"
    shutil.rmtree(source / "__consumer_offsets-1")
    (source / "__transaction_state-2" / "00000000000000000000.log.swap").touch()
    (source / "orders-0.0123456789abcdef0123456789abcdef-delete").mkdir()
    (source / "lost+found").mkdir()
    ran = adopt(source, data)
    reasons = {row["name"]: row["why"] for row in ran.rows_of("skipped")}
    assert reasons["__consumer_offsets"] == "partition 1 is missing: it was on another broker"
    assert "a compaction stopped while swapping" in reasons["__transaction_state"]
    assert reasons["orders-0.0123456789abcdef0123456789abcdef-delete"] == "it is being deleted"
    assert reasons["lost+found"] == "it is not a partition"
    assert ran.rows_of("topic") == []


def test_a_topic_of_the_same_name_and_another_id_is_not_touched(tmp_path: Path) -> None:
    source, data = unpack("idempotent", tmp_path), tmp_path / "data"
    adopt(source, data)
    (source / "idempotent-0" / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    )
    ran = adopt(source, data)
    (row,) = ran.rows
    assert row["why"].startswith("another topic of this name exists")


def test_damage_keeps_a_topic_out_and_the_others_come_in(tmp_path: Path) -> None:
    data = unpack("killed", tmp_path)
    path = data / "records-0" / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[16] = 9  # the magic of a batch that was flushed
    path.write_bytes(content)
    ran = adopt(data, data)
    assert ran.exit_code == 1
    assert "not adopted: records" in ran.stderr
    assert "records" not in image_of(data).topic_names
    assert "segments" in image_of(data).topic_names
    assert path.read_bytes() == content


def test_a_torn_tail_is_recovered_on_the_way(tmp_path: Path) -> None:
    data = unpack("torn", tmp_path)
    ran = adopt(data, data)
    assert ran.exit_code == 0
    assert "recovered: codec-none-0" in ran.stderr
    log = open_unpacked(data).logs[parse_directory_name("codec-none-0")]  # type: ignore[index]
    assert log.end_offset == 215


def test_a_directory_that_is_no_log_directory_is_refused(tmp_path: Path) -> None:
    assert adopt(tmp_path / "nowhere", tmp_path / "data").exit_code == 4
    (tmp_path / "empty").mkdir()
    ran = adopt(tmp_path / "empty", tmp_path / "data")
    assert ran.exit_code == 1
    assert "is not a log directory" in ran.stderr
    assert not (tmp_path / "data").exists()


def test_a_broker_that_runs_is_not_robbed(tmp_path: Path) -> None:
    data = unpack("records", tmp_path)
    running = open_unpacked(data)
    ran = adopt(data, data)
    running.close(broker_epoch=1)
    assert ran.exit_code == 1
    assert "is in use" in ran.stderr
