"""A full disk, a stepped clock, and a slow network."""

import json
import socket
import time
from datetime import datetime
from typing import Any

from tests.cluster.chaos.faults.fault import Fault, require
from tests.cluster.chaos.waiting import wait_until

# A log line may wait for the broker's loop.
CHECK_TIMEOUT_S = 30.0
CLOCK_STEP_S = 3600
_TOLERANCE_S = 600
# No request: the broker logs it, with the time, and ends the connection.
_NO_REQUEST = b"\x00\x00\x00\x10GET / HTTP/1.1\r\n"


class FillDisk(Fault):
    name = "fill a broker's disk"

    def inject(self) -> None:
        self.filled = self.a_leader()
        self.disk = self.stage.disks[self.filled.broker_id]
        self.disk.fill()

    def check(self) -> None:
        free = self.disk.free_bytes()
        require(free == 0, f"the disk of {self.filled} is full, not {free} bytes free")

    def heal(self) -> None:
        self.disk.free()

    @property
    def target(self) -> str:
        return str(self.filled)


class _StepClock(Fault):
    step_s = 0
    lasts_s = 2.0

    def inject(self) -> None:
        self.stepped = self.a_leader()
        self._log_start = self.stepped.log.stat().st_size
        self.stepped.clock.set_offset(self.step_s)

    def check(self) -> None:
        """The time of a log line shows it."""
        self.stepped.host.namespace.call(self._provoke_log_line)
        wait_until(
            lambda: any(map(self._is_stepped, self._log_lines())),
            CHECK_TIMEOUT_S,
            lambda: f"a log line of {self.stepped} that is {self.step_s} s off",
        )

    def heal(self) -> None:
        self.stepped.clock.set_offset(0)

    @property
    def target(self) -> str:
        return str(self.stepped)

    def _provoke_log_line(self) -> None:
        with socket.create_connection(self.stepped.address, CHECK_TIMEOUT_S) as connection:
            connection.sendall(_NO_REQUEST)
            connection.recv(1)

    def _log_lines(self) -> list[str]:
        with open(self.stepped.log, encoding="utf-8", errors="replace") as log:
            log.seek(self._log_start)
            return log.readlines()

    def _is_stepped(self, line: str) -> bool:
        logged_s = _seconds_of(line)
        return logged_s is not None and abs(logged_s - time.time() - self.step_s) < _TOLERANCE_S


class StepClockForwards(_StepClock):
    name = "step a broker's clock an hour forwards"
    step_s = CLOCK_STEP_S


class StepClockBackwards(_StepClock):
    name = "step a broker's clock an hour backwards"
    step_s = -CLOCK_STEP_S


class SlowNetwork(Fault):
    name = "a slow network that loses packets"

    def inject(self) -> None:
        self.slowed = self.random.choice(self.stage.hosts)
        self._before_s = self._transfer()
        self.stage.network.slow_down(self.slowed)

    def check(self) -> None:
        after_s = self._transfer()
        require(
            after_s > max(10 * self._before_s, 0.2),
            f"{self.slowed} sends slowly: {self._before_s:.3f} s before, {after_s:.3f} s after",
        )

    def heal(self) -> None:
        self.stage.network.speed_up(self.slowed)

    @property
    def target(self) -> str:
        return str(self.slowed)

    def _transfer(self) -> float:
        return self.stage.network.transfer_seconds(self.slowed, self.stage.clients)


def _seconds_of(line: str) -> float | None:
    try:
        entry: Any = json.loads(line)
        return datetime.fromisoformat(entry["ts"]).timestamp()
    except (ValueError, KeyError, TypeError):
        return None
