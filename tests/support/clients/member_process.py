"""A member of a group in a process of its own, which a test can stop and kill."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from typing import Any, ClassVar

from tests.support.clients.client import WAIT_S
from tests.support.clients.members import (
    AioKafkaMember,
    KafkaPythonMember,
    LibrdkafkaMember,
    Threaded,
)


class MemberProcess:
    """Reads and commits until it is closed, stopped or killed. `values` are the read values."""

    def __init__(self, command: list[str]) -> None:
        self.values: list[bytes] = []
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """It neither reads nor beats until it may go on, and knows nothing of it then."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def close(self) -> None:
        """Leaves the group, unless it was killed."""
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._end()

    def _end(self) -> None:
        try:
            self._process.wait(WAIT_S)
        finally:
            self._process.kill()
        self._thread.join(WAIT_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            for line in printed:
                self.values.append(line.rstrip(b"\n"))


def member_process(kind: str, servers: str, group: str, topic: str, **said: str) -> MemberProcess:
    """One of the clients below."""
    settings = [f"{name}={value}" for name, value in said.items()]
    command = [sys.executable, "-m", __name__, kind, servers, group, topic, *settings]
    return MemberProcess(command)


class _Printed(list[bytes]):
    """Prints records before they can be committed: a kill in between loses nothing."""

    def append(self, value: bytes) -> None:
        self += (value,)

    def __iadd__(self, values: Iterable[bytes]) -> "_Printed":  # type: ignore[misc,override]
        for value in values:
            sys.stdout.buffer.write(value + b"\n")
        sys.stdout.buffer.flush()
        return self


class _Printing(Threaded):
    """Mixed into a member before its own kind: its values are printed, not kept."""

    _printed: ClassVar = _Printed()

    @property
    def values(self) -> list[bytes]:
        return self._printed

    @values.setter
    def values(self, _: list[bytes]) -> None:
        pass


class _Librdkafka(_Printing, LibrdkafkaMember):
    pass


class _KafkaPython(_Printing, KafkaPythonMember):
    pass


class _AioKafka(_Printing, AioKafkaMember):
    pass


KINDS: dict[str, Any] = {
    "librdkafka": _Librdkafka,
    "kafka-python": _KafkaPython,
    "aiokafka": _AioKafka,
}


def main() -> None:
    kind, servers, group, topic, *settings = sys.argv[1:]
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    said = dict(setting.split("=", 1) for setting in settings)
    member = KINDS[kind](servers, group, topic, **said)
    while not is_over.wait(0.1):
        pass
    member.close()


if __name__ == "__main__":
    main()
