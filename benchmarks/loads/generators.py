"""The load generators in C: small requests, raw fetches, end-to-end latency."""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from benchmarks.cache import CACHE, cached, need, run_step
from benchmarks.loads import rdkafka
from benchmarks.loads.tools import output_of
from benchmarks.loads.topics import OnTopic
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope

SOURCES = Path(__file__).parent.parent / "generators"
SMALL_BYTES = 100
MIB = 1 << 20


@cache
def generator(name: str) -> str:
    """The path of a generator, compiled again if its source has changed."""
    need("gcc")
    sources = [SOURCES / f"{name}.c", *sorted(SOURCES.glob("*.h"))]
    text = b"".join(path.read_bytes() for path in sources)
    path = CACHE / f"{name}-{hashlib.sha256(text).hexdigest()[:12]}"
    command = ["gcc", "-O2", "-std=gnu11", f"{name}.c", "-o"]
    return str(cached(path, lambda target: run_step([*command, str(target.resolve())], SOURCES)))


def generate(name: str, peer: Peer, *arguments: object) -> dict[str, float]:
    """The figures of a generator's run; refused or lost records fail the load."""
    command = [generator(name), str(peer.port), *map(str, arguments)]
    said: dict[str, float] = json.loads(output_of(command))
    if said.get("errors") or said.get("lost"):
        raise LoadFailed(f"{name}: {said}")
    return said


@contextmanager
def generating(name: str, peer: Peer, *arguments: object) -> Iterator[None]:
    """Runs a generator in the background, and ends it afterwards."""
    process = subprocess.Popen(
        [generator(name), str(peer.port), *map(str, arguments)], stdout=subprocess.DEVNULL
    )
    try:
        yield
        if process.poll():
            raise LoadFailed(f"the background load {name} ended with {process.returncode}")
    finally:
        process.terminate()
        process.wait()


class SmallProduces(OnTopic):
    """Requests of one record on many connections; `rate` 0 is as fast as answers arrive."""

    def __init__(self, *, connections: int, seconds: float, rate: int = 0) -> None:
        super().__init__(partitions=6)
        self.connections, self.seconds, self.rate = connections, seconds, rate

    def run(self, peer: Peer, scope: Scope) -> Ran:
        seconds = scope.seconds(self.seconds)
        load = (self.topic, self.partitions, self.connections, seconds, SMALL_BYTES, 1, self.rate)
        said = generate("produce", peer, *load)
        return Ran(figures=said, requests=said["requests"])


class EndToEnd(OnTopic):
    """From the scheduled send of a record to its arrival at a waiting consumer."""

    def __init__(self, *, rate: int, seconds: float) -> None:
        super().__init__(partitions=1)
        self.rate, self.seconds = rate, seconds

    def run(self, peer: Peer, scope: Scope) -> Ran:
        seconds = scope.seconds(self.seconds)
        said = generate("latency", peer, self.topic, self.rate, seconds, SMALL_BYTES)
        return Ran(figures=said, requests=self.rate * (1 + seconds))


class RawFetch(OnTopic):
    """A log read from its start, 1 MiB per request, by a client that decodes nothing."""

    def __init__(self, *, megabytes: int) -> None:
        super().__init__(partitions=1)
        self.megabytes = megabytes

    def fill(self, peer: Peer, scope: Scope) -> None:
        count = scope.count(self.megabytes * 1000)
        rdkafka.produce(peer, self.topic, count=count, size=1000)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        megabytes = scope.count(self.megabytes)
        said = generate("fetch", peer, self.topic, 0, MIB, "scan", megabytes)
        return Ran(figures={"mb_s": said["mb_s"]}, payload_bytes=said["bytes"])
