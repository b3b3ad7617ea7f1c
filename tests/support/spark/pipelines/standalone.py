"""A standalone Spark cluster from the jars of its wheel, on the loopback interface only."""

import os
import re
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
START_WAIT_S = 300.0


class Daemon:
    """A master or a worker; `found` is the match in its output when it is ready."""

    def __init__(self, kind: str, ready: str, *arguments: str) -> None:
        self._ready = re.compile(ready)
        self._is_ready = threading.Event()
        self.found = ""
        self.said: list[str] = []
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PY")
        }
        # Without the tests' packages: executors get theirs from the archive.
        self._process = subprocess.Popen(
            [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment
            | {
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "128m",
                # The default of daemons shows nothing that would tell that they are ready.
                "SPARK_DAEMON_JAVA_OPTS": "-Dspark.log.level=INFO",
            },
        )
        threading.Thread(target=self._read, daemon=True).start()

    def wait_until_ready(self) -> str:
        assert self._is_ready.wait(START_WAIT_S), "".join(self.said)
        assert self.found, "".join(self.said)
        return self.found

    def stop(self) -> None:
        """Executors of a worker end with it."""
        self._process.terminate()
        try:
            self._process.wait(START_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.said.append(line)
                if found := self._ready.search(line):
                    self.found = found[1]
                    self._is_ready.set()
        self._is_ready.set()


class Standalone:
    """Runs for the length of a `with`."""

    def __init__(self, directory: Path, workers: int) -> None:
        self._directory = directory
        self._workers = workers
        self._daemons: list[Daemon] = []
        self.url = ""

    def __enter__(self) -> Self:
        listening = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        try:
            master = self._start("master.Master", r"master at (spark://\S+)", *listening)
            self.url = master.wait_until_ready()
            for number in range(self._workers):
                size = ("--cores", "2", "--memory", "640m")
                place = ("--work-dir", str(self._directory / f"worker-{number}"))
                ready = r"Successfully registered with master (\S+)"
                self._start("worker.Worker", ready, *listening, *size, *place, self.url)
            for worker in self._daemons[1:]:
                worker.wait_until_ready()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def _start(self, kind: str, ready: str, *arguments: str) -> Daemon:
        daemon = Daemon(kind, ready, *arguments)
        self._daemons.append(daemon)
        return daemon

    def _stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.stop()
