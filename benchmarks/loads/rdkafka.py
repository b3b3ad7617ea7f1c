"""librdkafka's own `rdkafka_performance`, built from the source in the crate `rdkafka-sys`."""

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cache import CACHE, cached, need, run_step
from benchmarks.loads.tools import output_of
from benchmarks.loads.topics import OnTopic
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope

CRATE_VERSION = "4.10.0"  # carries librdkafka 2.12.1
MANIFEST = """\
[package]
name = "rdkafka-source"
version = "0.0.0"
edition = "2021"

[dependencies]
rdkafka-sys = "={version}"
"""
# By default the tool lingers for a second, so that the last batch of a run may be up to a second
# late, which would distort every rate. These are librdkafka's own default linger, and a linger that
# fills batches of 1 MB.
BATCH_16_KB = ("batch.size=16384", "linger.ms=5")
BATCH_1_MB = ("batch.size=1000000", "linger.ms=20")
ARRIVAL_S_MAX = 60.0
# The progress lines of the tool: elapsed ms, messages, bytes, round trip, delivered, .., failed.
REPORT = re.compile(
    r"^\|\s+(\d+) \|\s+\d+ \|\s+\d+ \|\s+\d+ \|\s+(\d+) \|[^|]*\|[^|]*\|\s+(\d+) \|", re.MULTILINE
)
REPORT_MS = "100"
CONSUMED = re.compile(r"(\d+) messages \((\d+) bytes\) consumed in (\d+)ms")


def batches_of(messages: int) -> tuple[str, ...]:
    return (f"batch.num.messages={messages}", "linger.ms=5")


def tool() -> str:
    """The path of the tool, built on first use, which takes a minute or two."""
    path = CACHE / "rdkafka_performance"
    if not path.exists():
        need("cargo", "gcc", "make")
    return str(cached(path, _build))


def _build(target: Path) -> None:
    work = target.with_name("rdkafka-source")
    shutil.rmtree(work, ignore_errors=True)
    (work / "src").mkdir(parents=True)
    (work / "src" / "lib.rs").touch()
    (work / "Cargo.toml").write_text(MANIFEST.format(version=CRATE_VERSION))
    run_step(["cargo", "vendor", "-q"], work)
    source = work / "vendor" / "rdkafka-sys" / "librdkafka"
    run_step(["bash", "./configure", "--disable-sasl", "--disable-ssl", "--disable-curl"], source)
    run_step(["make", "-s", "-j2", "-C", "src", "librdkafka.a"], source)
    found = re.findall(r"^LIBS\+=\s*(.*)$", (source / "Makefile.config").read_text(), re.MULTILINE)
    command = ["gcc", "-O2", "-w", "-I.", "-Isrc", "examples/rdkafka_performance.c"]
    command += ["src/librdkafka.a", "-o", str(target.resolve()), *" ".join(found).split()]
    run_step([*command, "-lpthread"], source)
    shutil.rmtree(work)


def produce(
    peer: Peer,
    topic: str,
    *,
    count: int,
    size: int,
    acks: int = 1,
    settings: tuple[str, ...] = BATCH_16_KB,
    partition: int | None = None,
) -> float:
    """Sends messages, to any partition unless one is given; returns messages per second.

    The rate counts from the first report with a delivery: before it librdkafka looks up the leader
    and, if idempotent, a producer id, on timers of half a second.
    """
    command = [tool(), "-P", "-b", peer.address, "-t", topic, "-u", "-i", REPORT_MS]
    command += ["-p", str(partition)] if partition is not None else []
    command += ["-s", str(size), "-c", str(count), "-a", str(acks)]
    for setting in settings:
        command += ["-X", setting]
    printed = output_of(command)
    reports = [tuple(map(int, found)) for found in REPORT.findall(printed)]
    if not reports or reports[-1][1] != count or reports[-1][2]:
        raise LoadFailed(f"rdkafka_performance: {printed.strip()[-300:]}")
    return delivery_rate([(elapsed_ms, delivered) for elapsed_ms, delivered, _ in reports])


def delivery_rate(reports: Sequence[tuple[int, int]]) -> float:
    """Deliveries per second of (elapsed ms, delivered), from the first delivery to the last."""
    end_ms, end = reports[-1]
    begin_ms, begin = next(report for report in reports if report[1])
    if end == begin:  # all were delivered within one report: only the total is known
        begin_ms = begin = 0
    return (end - begin) * 1000 / max(1, end_ms - begin_ms)


class Produce(OnTopic):
    """One producer that sends `count` messages of `size` bytes as fast as it can."""

    def __init__(
        self, *, count: int, size: int, partitions: int, acks: int, settings: tuple[str, ...]
    ) -> None:
        super().__init__(partitions)
        self.count, self.size, self.acks, self.settings = count, size, acks, settings

    def run(self, peer: Peer, scope: Scope) -> Ran:
        count = scope.count(self.count)
        rate = produce(
            peer, self.topic, count=count, size=self.size, acks=self.acks, settings=self.settings
        )
        return Ran(figures={"rate": rate}, payload_bytes=count * self.size)


class UnacknowledgedProduce(Produce):
    """acks=0: the tool counts sent messages, so the end offset shows whether all arrived."""

    def __init__(self, *, count: int, size: int, batch: int) -> None:
        settings = batches_of(batch)
        super().__init__(count=count, size=size, partitions=1, acks=0, settings=settings)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        expected = peer.end_offset(self.topic) + scope.count(self.count)
        ran = super().run(peer, scope)
        deadline = time.monotonic() + ARRIVAL_S_MAX
        while (end := peer.end_offset(self.topic)) != expected:
            if time.monotonic() > deadline:
                raise LoadFailed(f"{expected - end:,} messages did not arrive")
            time.sleep(0.05)
        return ran


class Fetch(OnTopic):
    """One consumer that reads partition 0 from its start."""

    def __init__(self, *, count: int, size: int, settings: tuple[str, ...] = BATCH_16_KB):
        super().__init__(partitions=1)
        self.count, self.size, self.settings = count, size, settings

    def fill(self, peer: Peer, scope: Scope) -> None:
        count = scope.count(self.count)
        produce(peer, self.topic, count=count, size=self.size, settings=self.settings)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        command = [tool(), "-C", "-b", peer.address, "-t", self.topic, "-p", "0", "-q"]
        command += ["-o", "beginning", "-c", str(scope.count(self.count))]
        found = CONSUMED.search(printed := output_of(command))
        if not found or not int(found[3]):
            raise LoadFailed(f"rdkafka_performance: {printed.strip()[-300:]}")
        messages, payload_bytes, ms = map(int, found.groups())
        return Ran(figures={"rate": messages * 1000 / ms}, payload_bytes=payload_bytes)
