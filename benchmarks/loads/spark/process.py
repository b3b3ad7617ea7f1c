"""The Spark process: started on first use, and kept for later rows."""

import importlib.util
import json
import selectors
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.cache import ROOT, ToolMissing, need, run_step
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed

CONNECTOR_VERSION = "4.2.0"
ANSWER_S_MAX = 900.0
STOP_S = 30.0
TROUBLE_CHARACTERS_MAX = 600

_running: list["SparkProcess"] = []


class SparkProcess:
    """One session, which runs one query at a time and returns its figures."""

    def __init__(self, name: str, conf: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._conf = dict(conf or {})
        self._process: subprocess.Popen[str] | None = None
        self._log = Path()

    def ask(self, peer: Peer, query: str, **arguments: object) -> dict[str, float]:
        """Runs a query of `benchmarks.loads.spark.child` on topics of this broker."""
        if self._process is None:
            self._start(peer.directory.with_name(f"spark-{self.name}"))
        asked = {"query": query, "servers": peer.address, **arguments}
        answer = json.loads(self._exchange(json.dumps(asked)))
        if "trouble" in answer:
            raise LoadFailed(f"Spark: {answer['trouble'][:TROUBLE_CHARACTERS_MAX]}")
        figures: dict[str, float] = answer["figures"]
        return figures

    def end(self) -> None:
        """Idempotent. The session ends with the child's input, and Java with the child."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        _running.remove(self)
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        conf = self._conf | {"spark.driver.extraClassPath": f"{connector_jars()}/*"}
        command = [sys.executable, "-m", "benchmarks.loads.spark.child"]
        self._log = place / "spark.log"
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*command, str(place.resolve()), json.dumps(conf)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
            )
        _running.append(self)

    def _exchange(self, line: str) -> str:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise LoadFailed("Spark is not running")
        with suppress(BrokenPipeError):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            answer = process.stdout.readline() if selector.select(ANSWER_S_MAX) else ""
        if not answer:
            process.kill()
            self.end()
            log = self._log.read_text(errors="replace").strip()
            raise LoadFailed(f"Spark does not answer: {log[-TROUBLE_CHARACTERS_MAX:]}")
        return answer


@contextmanager
def ended_afterwards() -> Iterator[None]:
    """Ends every Spark process that was started within."""
    try:
        yield
    finally:
        for process in tuple(_running):
            process.end()


def connector_jars() -> Path:
    """The directory of Spark's own connector, fetched by Maven on first use. ToolMissing."""
    need("java")
    if importlib.util.find_spec("pyspark") is None:
        raise ToolMissing("pyspark is not installed (pip install 'ottla[spark]')")
    target = ROOT / ".cache" / f"spark-kafka-{CONNECTOR_VERSION}"
    if not (target / ".done").exists():
        need("mvn")
        run_step(["tools/spark-jars", CONNECTOR_VERSION, str(target)], ROOT)
    return target
