"""A full disk, a stepped clock, and a slow network."""

import json
import socket
import time
from datetime import datetime
from typing import Any

from ottla.client.errors import ClientError
from ottla.errors import ErrorCode
from tests.cluster.chaos.faults.fault import Fault, require
from tests.cluster.chaos.faults.probe import Probe
from tests.cluster.chaos.network import SLOW_TRANSFER_S
from tests.cluster.chaos.stage import SETTLE_TIMEOUT_S
from tests.cluster.chaos.waiting import wait_until
from tests.cluster.chaos.workload import PROBES

# A log line may wait for the broker's loop.
CHECK_TIMEOUT_S = 30.0
CLOCK_STEP_S = 3600
# One of them is not held up by other work of the machine.
TRANSFERS_BEFORE = 3
_TOLERANCE_S = 600
# No request: the broker logs it, with the time, and ends the connection.
_NO_REQUEST = b"\x00\x00\x00\x10GET / HTTP/1.1\r\n"


class FillDisk(Fault):
    """A leader refuses records while its disk is full, and takes them again afterwards."""

    name = "fill a broker's disk"
    lasts_s = 2.0

    def inject(self) -> None:
        """NotWithinTime if nobody leads the partition."""
        self._partitions = range(len(self.stage.view().topics[PROBES].partitions))
        self.filled = self.stage.leader_of(PROBES, self.random.choice(self._partitions))
        self.disk = self.stage.disks[self.filled.broker_id]
        self.disk.fill()

    def check(self) -> None:
        """The disk is full, and a leader there refuses a record."""
        wait_until(
            self._is_full,
            CHECK_TIMEOUT_S,
            lambda: f"the disk of {self.filled} is full, not {self.disk.free_bytes()} bytes free",
        )
        wait_until(
            lambda: ErrorCode.KAFKA_STORAGE_ERROR in map(self._answer_of_filled, self._partitions),
            CHECK_TIMEOUT_S,
            lambda: f"{self.filled} refuses records",
        )

    def heal(self) -> None:
        """NotWithinTime if no record is taken."""
        self.disk.free()
        wait_until(
            lambda: ErrorCode.NONE in map(self._answer_of_filled, self._partitions),
            SETTLE_TIMEOUT_S,
            lambda: f"{self.filled} leads again and takes records",
        )

    def _is_full(self) -> bool:
        """Except for one block, which the broker may free at any moment."""
        self.disk.fill()
        return self.disk.free_bytes() <= self.disk.block_bytes

    def _answer_of_filled(self, partition: int) -> ErrorCode | None:
        try:
            probe = Probe(self.filled)
            try:
                return probe.error(probe.send(PROBES, partition, acks=-1))
            finally:
                probe.close()
        except ClientError:
            return None

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
    """The bounds are those of the rate, so that a busy machine does not change what is seen."""

    name = "a slow network that loses packets"

    def inject(self) -> None:
        self.slowed = self.random.choice(self.stage.hosts)
        self._before_s = min(self._transfer() for _ in range(TRANSFERS_BEFORE))
        self.stage.network.slow_down(self.slowed)

    def check(self) -> None:
        after_s = self._transfer()
        require(
            self._before_s < SLOW_TRANSFER_S / 2 and after_s > 0.9 * SLOW_TRANSFER_S,
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
