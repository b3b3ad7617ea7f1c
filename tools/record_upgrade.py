"""Records what this version of Ottla writes, so that every later version is held to open it.

    .venv/bin/python -m tools.record_upgrade LABEL [CASE ...]

Run from the root of the tree, with what `make setup` made, Java for `spark-checkpoint` and
`transactions-killed`, and Kafka's tools for the latter. Writes
`tests/vectors/upgrade/LABEL/CASE.tar.gz`, and beside it `CASE.expected.json`: the content that this
version read from the unpacked archive. LABEL is the version of Ottla, with a suffix if one version
had more than one format: 0.1.0, 0.1.0-2. Recorded cases are never replaced: they are what users
have on their disks. The tests run on the cases of all labels.

A later version whose format changed records a new label. If it writes something that is not in
the cases yet, `write_data` gets a step that makes it, under a topic or group of its own.
"""

import argparse
import getpass
import gzip
import io
import json
import shutil
import socket
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from tests.support.broker_process import BrokerProcess
from tests.support.cluster_contents import WAIT_S, Json, contents, text_of, without_epochs
from tests.support.raw_requests import ResourceType, alter_configs
from tests.support.transaction_contents import (
    last_stable_offsets,
    settled_contents,
    stable_offsets,
    transactions,
    uncommitted,
)
from tests.support.upgrade_cases import UpgradeCase
from tests.support.upgrade_settings import OPENING
from tools.upgrade_transactions import (
    OPEN,
    PENDING,
    TOPIC,
    write_first_transactions,
    write_transactions,
)
from tools.upgrade_writer import (
    CENTURY_MS,
    FUTURE_MS,
    HOUR_MS,
    PAST_MS,
    ROLLING,
    ROLLING_IN_FUTURE,
    Writer,
    recovery_point,
    until,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WRITING = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "offsets.topic.num.partitions": "3",
    "ottla.disk.reserve.bytes": "0",
    # The open transaction is still open at the kill.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(HOUR_MS),
    "transaction.state.log.num.partitions": "3",
}
INCARNATION = "incarnation.json"
# Not the boot id of any machine: the broker comes back after a reboot, wherever it is opened.
BOOT_ID = "00000000-0000-0000-0000-000000000000"
# Of what was led before a broker's first restart.
SECOND_EPOCH = 1
BATCH_ROWS = 20
FAILING_BATCH = 3


# The data directories


def write_first_data(writer: Writer) -> None:
    """What a broker writes before its first restart, under the first leader epoch."""
    write_configs(writer)
    writer.make("codecs", 3, ROLLING)
    write_codecs(writer, CODECS[:2])
    write_sizes(writer)


def write_data(writer: Writer, data: Path, members: ExitStack) -> None:
    """The rest, under the second. `members` are alive until the broker's end."""
    write_codecs(writer, CODECS[2:])
    write_compacted(writer)
    write_trimmed(writer)
    write_renewed(writer)
    write_groups(writer)
    keep_members(writer, members)
    write_idempotent(writer, data)
    write_tails(writer)


def write_configs(writer: Writer) -> None:
    """Dynamic configs of one broker, of all brokers, and of a group."""
    for kind, name, configs in (
        (ResourceType.BROKER, "1", {"message.max.bytes": "2000000"}),
        (ResourceType.BROKER, "", {"log.cleaner.io.buffer.size": "400000"}),
        (ResourceType.GROUP, "consumer-members", {"consumer.session.timeout.ms": "60000"}),
    ):
        alter_configs(writer.servers, kind, name, configs)


def write_codecs(writer: Writer, codecs: Sequence[str]) -> None:
    """A segment of each codec in each of three partitions, with headers and nulls."""
    for codec in codecs:
        with writer.producing(compression_type=codec) as producer:
            for each in range(12):
                producer.produce(
                    "codecs",
                    None if each == 5 else f"{codec} {each} ".encode() * 8,
                    key=None if each == 6 else b"key %d" % each,
                    partition=each % 3,
                    timestamp=PAST_MS + CODECS.index(codec) * HOUR_MS + each,
                    headers=[("codec", codec.encode()), ("none", None)] if each % 4 == 0 else None,
                )


def write_sizes(writer: Writer) -> None:
    """Segments that were closed for their size, with several index entries each."""
    configs = {"segment.bytes": str(1 << 20), "index.interval.bytes": "1000"}
    writer.make("sizes", 1, configs | {"retention.ms": "-1"})
    with writer.producing(linger_ms="0") as producer:
        for number in range(8):
            value = b"%d" % number * 300_000
            producer.produce("sizes", value, partition=0, timestamp=PAST_MS + number)
            assert producer.flush(WAIT_S) == 0


def write_compacted(writer: Writer) -> None:
    """Closed segments that were compacted, tombstones among them, and one that is active."""
    keys, rounds, active = 10, 4, 5
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": str(CENTURY_MS),
    }
    writer.make("compacted", 1, ROLLING | configs)
    for number in range(rounds):
        with writer.producing(compression_type=CODECS[number]) as producer:
            for key in range(keys):
                is_gone = number == rounds - 1 and key < 2
                producer.produce(
                    "compacted",
                    None if is_gone else b"round %d" % number,
                    key=b"key %d" % key,
                    partition=0,
                    timestamp=PAST_MS + number * HOUR_MS,
                )
    with writer.producing() as producer:
        for key in range(active):
            time_ms = PAST_MS + rounds * HOUR_MS
            producer.produce("compacted", b"last", key=b"last %d" % key, timestamp=time_ms)
    until(lambda: count(writer.servers, "compacted") == keys + active)


def count(servers: str, topic: str) -> int:
    """How many records are in partition 0."""
    settings = {"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": "false"}
    settings |= {"enable.partition.eof": "true", "fetch.wait.max.ms": "10"}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = 0
        while (message := consumer.poll(WAIT_S)) is not None and message.error() is None:
            found += 1
        return found


def write_trimmed(writer: Writer) -> None:
    """Records deleted from the front: up to the middle of a batch, and up to the end."""
    writer.make("trimmed", 3, ROLLING)
    for number in range(3):
        with writer.producing() as producer:
            for each in range(60):
                producer.produce(
                    "trimmed",
                    b"%d" % (number * 60 + each),
                    partition=each % 3,
                    timestamp=PAST_MS + number * HOUR_MS,
                )
    writer.delete_records("trimmed", 0, 27)
    writer.delete_records("trimmed", 1, 60)


def write_renewed(writer: Writer) -> None:
    """A topic that was deleted and made again, with an offset of its first life; one deleted."""
    for topic in ("renewed", "gone"):
        writer.make(topic, 2, {"retention.ms": "-1"})
        with writer.producing() as producer:
            for each in range(10):
                producer.produce(topic, b"first life", partition=each % 2, timestamp=PAST_MS)
        with closing(writer.joined("stale", topic)) as consumer:
            offsets = [TopicPartition(topic, 0, 5), TopicPartition("codecs", 0, 1)]
            consumer.commit(offsets=offsets, asynchronous=False)
        writer.delete(topic)
    configs = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
    writer.make("renewed", 1, configs)
    with writer.producing() as producer:
        for each in range(3):
            producer.produce("renewed", b"second life %d" % each, partition=0)


def write_groups(writer: Writer) -> None:
    """Committed offsets of both kinds of groups, whose members left."""
    for group in ("classic", "consumer"):
        with closing(writer.joined(group, "codecs", "renewed", group_protocol=group)) as consumer:
            offsets = [
                TopicPartition("codecs", number, number + 9, f"{group} {number}", SECOND_EPOCH)
                for number in range(3)
            ]
            consumer.commit(offsets=offsets, asynchronous=False)
            offsets = [TopicPartition("renewed", 0, 2)]
            consumer.commit(offsets=offsets, asynchronous=False)


def keep_members(writer: Writer, members: ExitStack) -> None:
    """A member of each kind of group that is there when the broker ends."""
    patience = {"session_timeout_ms": "1800000", "max_poll_interval_ms": "1800000"}
    for group, settings in (("classic", patience), ("consumer", {})):
        member = writer.joined(
            f"{group}-members",
            "codecs",
            group_protocol=group,
            group_instance_id=f"{group}-1",
            **settings,
        )
        members.callback(member.close)
        offsets = [TopicPartition("codecs", 0, 7, metadata="a member's")]
        member.commit(offsets=offsets, asynchronous=False)


def write_idempotent(writer: Writer, data: Path) -> None:
    """Two producers. In partition 1 only a snapshot remembers the first: its records are gone."""
    writer.make("idempotent", 2, ROLLING_IN_FUTURE)
    for hours in (range(3), range(3, 4)):
        with writer.producing(enable_idempotence="true") as producer:
            for hour in hours:
                for each in range(10):
                    producer.produce(
                        "idempotent",
                        b"%d %d" % (hour, each),
                        partition=each % 2,
                        timestamp=FUTURE_MS + hour * HOUR_MS,
                    )
                assert producer.flush(WAIT_S) == 0
    writer.delete_records("idempotent", 1, 3 * 5)
    until(lambda: len([*(data / "idempotent-1").glob("*.log")]) == 1)
    # A snapshot beyond the recovery point would not be trusted after a kill.
    until(lambda: recovery_point(data, "idempotent 1") >= 3 * 5)


def write_tails(writer: Writer) -> None:
    """Records in active segments that no flush comes to: a killed broker has to recover them."""
    with writer.producing(compression_type="zstd") as producer:
        for topic, hour in (("codecs", 4), ("trimmed", 2)):
            for each in range(6):
                time_ms = PAST_MS + hour * HOUR_MS
                producer.produce(topic, b"tail %d" % each, partition=each % 3, timestamp=time_ms)
    with writer.producing(enable_idempotence="true") as producer:
        for each in range(4):
            time_ms = FUTURE_MS + 3 * HOUR_MS
            producer.produce("idempotent", b"tail", partition=each % 2, timestamp=time_ms)


def record_data(case: UpgradeCase, scratch: Path, *, is_killed: bool) -> None:
    data = scratch / "written"
    with BrokerProcess(data, WRITING) as broker:
        write_first_data(Writer(broker.bootstrap_servers))
        broker.stop()
    with ExitStack() as members, BrokerProcess(data, WRITING) as broker:
        write_data(Writer(broker.bootstrap_servers), data, members)
        alive = contents(broker.bootstrap_servers)
        if is_killed:
            broker.kill()
        else:
            broker.stop()
    if is_killed:
        assert (
            recovery_point(data, "idempotent 1")
            < alive["topics"]["idempotent"]["partitions"][1]["end"]
        )
    pack(case, data, scratch)
    incarnation = json.loads((case.unpack(scratch / "seen") / INCARNATION).read_text())
    assert incarnation["clean"] is not is_killed
    with BrokerProcess(scratch / "seen", OPENING) as broker:
        found = contents(broker.bootstrap_servers)
    assert without_epochs(found) == without_epochs(alive)
    save(case, {"incarnation": incarnation, **found}, scratch)


# The transactions


def record_transactions(case: UpgradeCase, scratch: Path) -> None:
    """A killed broker with an open transaction, which times out before the content is read."""
    data = scratch / "written"
    with BrokerProcess(data, WRITING) as broker:
        write_first_transactions(Writer(broker.bootstrap_servers))
        broker.stop()
    with BrokerProcess(data, WRITING) as broker:
        opened = write_transactions(Writer(broker.bootstrap_servers), data)
        records = uncommitted(broker.bootstrap_servers)
        at_kill = {
            "last_stable_offsets": last_stable_offsets(broker.bootstrap_servers),
            "stable_offsets": stable_offsets(broker.bootstrap_servers, PENDING, TOPIC),
            "transactions": transactions(broker.bootstrap_servers),
        }
        broker.kill()
    del opened
    assert at_kill["transactions"][OPEN]["state"] == "Ongoing"
    for number, written in enumerate(records[TOPIC]):
        assert recovery_point(data, f"{TOPIC} {number}") <= written[-1]["offset"]
    pack(case, data, scratch)
    incarnation = json.loads((case.unpack(scratch / "seen") / INCARNATION).read_text())
    assert incarnation["clean"] is False
    with BrokerProcess(scratch / "seen", OPENING) as broker:
        found = settled_contents(broker.bootstrap_servers)
    assert found["uncommitted"] == records
    save(case, {"incarnation": incarnation, "at_kill": at_kill, **found}, scratch)


# The stream's checkpoint


def record_spark_checkpoint(case: UpgradeCase, scratch: Path) -> None:
    """A query that failed in its sink: the offset log is one batch ahead of the commit log."""
    written = scratch / "written"
    with BrokerProcess(written / "data", WRITING) as broker:
        writer = Writer(broker.bootstrap_servers)
        writer.make("events", 2, {"retention.ms": "-1"})
        with writer.producing() as producer:
            for each in range(100):
                partition = int(each % 4 == 0)
                producer.produce("events", b"%d" % each, partition=partition, timestamp=PAST_MS)
        sink = run_until_failure(broker.bootstrap_servers, written / "checkpoint")
        broker.stop()
    pack(case, written, scratch)
    seen = case.unpack(scratch / "seen")
    logs = {
        name: {
            path.name: json.loads(path.read_text().splitlines()[-1])
            for path in sorted((seen / "checkpoint" / name).glob("[0-9]*"))
        }
        for name in ("offsets", "commits")
    }
    assert [*logs["offsets"]] == [*map(str, range(FAILING_BATCH + 1))]
    assert [*logs["commits"]] == [*sink] == [*map(str, range(FAILING_BATCH))]
    with BrokerProcess(seen / "data", OPENING) as broker:
        found = contents(broker.bootstrap_servers)
    save(case, {"offsets": logs["offsets"], "sink": sink, **found}, scratch)


def run_until_failure(servers: str, checkpoint: Path) -> Json:
    """The rows of each batch that the query committed."""
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import DataFrame

    from ottla.spark import session

    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = session("record", master="local[2]", conf=conf)
    spark.sparkContext.setLogLevel("OFF")
    sink: dict[str, Json] = {}

    def put(rows: DataFrame, batch_id: int) -> None:
        if batch_id == FAILING_BATCH:
            raise RuntimeError("the sink is gone")
        sink[str(batch_id)] = sorted(
            [row.partition, row.offset, text_of(bytes(row.value))] for row in rows.collect()
        )

    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": "events",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH_ROWS),
        "groupId": "stream",
    }
    rows = spark.readStream.format("ottla").options(**options).load()
    writer = rows.writeStream.foreachBatch(put).option("checkpointLocation", str(checkpoint))
    query = writer.start()
    try:
        query.awaitTermination(WAIT_S)
        raise AssertionError("the query did not fail")
    except StreamingQueryException:
        return sink
    finally:
        spark.stop()


# The archives


def pack(case: UpgradeCase, directory: Path, scratch: Path) -> None:
    """The same bytes for the same files: nothing in it tells of the machine that made it."""
    for path in directory.rglob(INCARNATION):
        found = json.loads(path.read_text())
        path.write_text(path.read_text().replace(found["boot_id"], BOOT_ID))
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(directory.rglob("*")):
            archive.add(path, path.relative_to(directory), recursive=False, filter=_anonymous)
            if path.is_file():
                refuse_traces(path.name, path.read_bytes(), scratch)
    case.archive.parent.mkdir(parents=True, exist_ok=True)
    case.archive.write_bytes(gzip.compress(content.getvalue(), mtime=0))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() else 0o644
    return member


def save(case: UpgradeCase, expected: Json, scratch: Path) -> None:
    text = json.dumps(expected, indent=1, ensure_ascii=True) + "\n"
    refuse_traces(case.expected_path.name, text.encode(), scratch)
    case.expected_path.write_text(text)
    sizes = [path.stat().st_size for path in (case.archive, case.expected_path)]
    print(f"{case}: {sizes[0]} bytes, and {sizes[1]} of what is expected")


def refuse_traces(name: str, content: bytes, scratch: Path) -> None:
    """Fails if paths or names of this machine are in it."""
    user = getpass.getuser()
    traces = [str(scratch), str(Path.cwd()), str(Path.home()), socket.gethostname()]
    # A name as common as root's would be found in words.
    traces += [f"/{user}/", f'"{user}"']
    for trace in traces:
        assert trace.encode() not in content, f"{trace} is in {name}"


CASES: Mapping[str, Callable[[UpgradeCase, Path], None]] = {
    "data-clean": lambda case, scratch: record_data(case, scratch, is_killed=False),
    "data-killed": lambda case, scratch: record_data(case, scratch, is_killed=True),
    "spark-checkpoint": record_spark_checkpoint,
    "transactions-killed": record_transactions,
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("label")
    parser.add_argument("cases", nargs="*", default=[*CASES], metavar="case")
    given = parser.parse_args(arguments)
    for name in given.cases:
        case = UpgradeCase(given.label, name)
        if case.archive.exists():
            parser.error(f"{case} is recorded already: choose another label")
        scratch = Path(tempfile.mkdtemp(prefix="ottla-record-"))
        try:
            CASES[name](case, scratch)
        finally:
            shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
