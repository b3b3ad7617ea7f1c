"""CPU time, memory and reads of processes and their children, from /proc."""

import os
from collections.abc import Iterator
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


def cpu_s(*pids: int) -> float:
    """User and system time, including children that have ended."""
    return sum(map(_cpu_s, pids))


def _cpu_s(pid: int) -> float:
    ticks = 0
    for member in family(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        own, ended_children = fields[11:13], fields[13:15]
        ticks += sum(map(int, own)) + (sum(map(int, ended_children)) if member == pid else 0)
    return ticks / TICKS_PER_S


def memory_mb(*pids: int) -> float:
    """Resident memory in MB."""
    members = [member for pid in pids for member in family(pid)]
    return sum(_field(f"/proc/{member}/status", "VmRSS:") for member in members) * 1024 / 1e6


def peak_memory_mb(pid: int) -> float:
    """The peak of resident memory in MB, without children."""
    return _field(f"/proc/{pid}/status", "VmHWM:") * 1024 / 1e6


def read_bytes(pid: int) -> float:
    """Bytes read by system calls, including sendfile, from the page cache or from disk."""
    return sum(_field(f"/proc/{member}/io", "rchar:") for member in family(pid))


def _field(path: str, name: str) -> float:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return float(line.split()[1])
    raise ValueError(f"{path} has no {name}")
