"""Checks of this machine: Python, compiler, Java, disk, descriptors, clock."""

import ctypes
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import sysconfig

from ottla.cli.doctor.finding import Finding, FindingState
from ottla.native import scan
from ottla.settings.table.segments import DISK_RESERVE_BYTES, FILES_OPEN_MAX
from ottla.spark.java_version import JAVA_MIN

PYTHON_MIN = (3, 11)
# Connections that a broker should be able to hold in addition to its files.
CONNECTIONS_EXPECTED = 1024
JAVA_TIMEOUT_S = 10.0
# 2025: an earlier clock was never set.
CLOCK_MS_MIN = 1_735_689_600_000

_JAVA_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
# adjtimex(2): the clock is not synchronized.
_TIME_ERROR = 5
_TIMEX_BYTES = 256


def check_python() -> Finding:
    version = platform.python_version()
    if sys.version_info[:2] < PYTHON_MIN:
        wanted = ".".join(map(str, PYTHON_MIN))
        return Finding("python", FindingState.BROKEN, version, f"install Python {wanted} or later")
    return Finding("python", FindingState.OK, f"{version}, {sys.executable}")


def check_native() -> Finding:
    if not scan.__file__.endswith(".py"):
        return Finding("native code", FindingState.OK, "compiled")
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler):
        return Finding(
            "native code",
            FindingState.LIMITED,
            f"interpreted, many times slower; there is a compiler ({compiler})",
            "reinstall ottla to compile it",
        )
    return Finding(
        "native code",
        FindingState.LIMITED,
        "interpreted, many times slower; there is no compiler",
        "install a C compiler (apt install gcc python3-dev), then reinstall ottla",
    )


def check_java() -> Finding:
    advice = f"install Java {JAVA_MIN} or later for Spark and for clusters; the rest runs without"
    java = shutil.which("java")
    if java is None:
        return Finding("java", FindingState.LIMITED, "not found", advice)
    try:
        ran = subprocess.run(  # noqa: S603 - the user's own java
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", FindingState.LIMITED, f"{java} does not run: {error}", advice)
    version = _JAVA_VERSION.search(ran.stderr)
    if version is None or int(version[1]) < JAVA_MIN:
        found = f"version {version[1]}" if version else "unknown version"
        return Finding("java", FindingState.LIMITED, f"{java}, {found}", advice)
    return Finding("java", FindingState.OK, f"{version[1]}, {java}")


def check_disk(data: str) -> Finding:
    """Checks the disk of the data directory, which need not exist yet."""
    directory = os.path.abspath(data)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    free_bytes = shutil.disk_usage(directory).free
    found = f"{free_bytes / 2**30:.1f} GiB free for {data}"
    if not os.access(directory, os.W_OK):
        return Finding(
            "disk", FindingState.BROKEN, f"{directory} cannot be written to", "use --data"
        )
    if free_bytes < DISK_RESERVE_BYTES.default:
        return Finding(
            "disk",
            FindingState.BROKEN,
            found,
            f"a broker refuses records below {DISK_RESERVE_BYTES.name}: free some space",
        )
    return Finding("disk", FindingState.OK, found)


def check_descriptors() -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    wanted = FILES_OPEN_MAX.default + CONNECTIONS_EXPECTED
    if 0 <= limit < wanted:
        return Finding(
            "open files", FindingState.LIMITED, f"at most {limit}", f"raise it: ulimit -n {wanted}"
        )
    return Finding("open files", FindingState.OK, "unlimited" if limit < 0 else f"at most {limit}")


def check_clock(wall_ms: int) -> Finding:
    """Record timestamps, retention and transactions depend on the clock."""
    if wall_ms < CLOCK_MS_MIN:
        return Finding("clock", FindingState.BROKEN, "years behind", "set the clock")
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state < 0:
        return Finding(
            "clock", FindingState.OK, "the kernel does not report whether it is synchronized"
        )
    if state == _TIME_ERROR:
        return Finding(
            "clock",
            FindingState.LIMITED,
            "not synchronized",
            "run a time service (chrony, systemd-timesyncd)",
        )
    return Finding("clock", FindingState.OK, "synchronized")
