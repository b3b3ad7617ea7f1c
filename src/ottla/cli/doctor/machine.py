"""What this machine has: Python, compiler, Java, disk, descriptors, clock."""

import ctypes
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import sysconfig

from ottla.cli.doctor.finding import Finding, State
from ottla.native import scan
from ottla.settings.table.segments import DISK_RESERVE_BYTES, FILES_OPEN_MAX
from ottla.spark.java_version import JAVA_MIN

PYTHON_MIN = (3, 11)
# Connections that a broker should be able to hold besides its files.
CONNECTIONS_EXPECTED = 1024
JAVA_TIMEOUT_S = 10.0
# 2025: a clock that says less was never set.
CLOCK_MS_MIN = 1_735_689_600_000

_JAVA_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
# Of `adjtimex`: nobody corrects this clock.
_TIME_ERROR = 5
_TIMEX_BYTES = 256


def check_python() -> Finding:
    version = platform.python_version()
    if sys.version_info[:2] < PYTHON_MIN:
        wanted = ".".join(map(str, PYTHON_MIN))
        return Finding("python", State.BROKEN, version, f"install Python {wanted} or later")
    return Finding("python", State.OK, f"{version}, {sys.executable}")


def check_native() -> Finding:
    if not scan.__file__.endswith(".py"):
        return Finding("native code", State.OK, "compiled")
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler):
        return Finding(
            "native code",
            State.LIMITED,
            f"interpreted, many times slower; there is a compiler ({compiler})",
            "install ottla again, so that it is compiled",
        )
    return Finding(
        "native code",
        State.LIMITED,
        "interpreted, many times slower; there is no compiler",
        "install a C compiler (apt install gcc python3-dev), then ottla again",
    )


def check_java() -> Finding:
    advice = f"install Java {JAVA_MIN} or later for Spark and for clusters; all else runs"
    java = shutil.which("java")
    if java is None:
        return Finding("java", State.LIMITED, "not found", advice)
    try:
        ran = subprocess.run(  # noqa: S603 - the user's own java
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", State.LIMITED, f"{java} does not run: {error}", advice)
    version = _JAVA_VERSION.search(ran.stderr)
    if version is None or int(version[1]) < JAVA_MIN:
        found = f"version {version[1]}" if version else "of a version that it does not tell"
        return Finding("java", State.LIMITED, f"{java}, {found}", advice)
    return Finding("java", State.OK, f"{version[1]}, {java}")


def check_disk(data: str) -> Finding:
    """The disk on which the data lies, or will lie."""
    directory = os.path.abspath(data)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    free_bytes = shutil.disk_usage(directory).free
    found = f"{free_bytes / 2**30:.1f} GiB free for {data}"
    if not os.access(directory, os.W_OK):
        return Finding("disk", State.BROKEN, f"{directory} cannot be written to", "use --data")
    if free_bytes < DISK_RESERVE_BYTES.default:
        return Finding(
            "disk",
            State.BROKEN,
            found,
            f"a broker takes no records below {DISK_RESERVE_BYTES.name}: free some space",
        )
    return Finding("disk", State.OK, found)


def check_descriptors() -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    wanted = FILES_OPEN_MAX.default + CONNECTIONS_EXPECTED
    if 0 <= limit < wanted:
        return Finding(
            "open files", State.LIMITED, f"at most {limit}", f"raise it: ulimit -n {wanted}"
        )
    return Finding("open files", State.OK, "unlimited" if limit < 0 else f"at most {limit}")


def check_clock(wall_ms: int) -> Finding:
    """Records carry its time; retention and transactions live by it."""
    if wall_ms < CLOCK_MS_MIN:
        return Finding("clock", State.BROKEN, "years behind", "set the clock")
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state < 0:
        return Finding("clock", State.OK, "the kernel does not tell whether it is kept in time")
    if state == _TIME_ERROR:
        return Finding(
            "clock",
            State.LIMITED,
            "not kept in time by anybody",
            "run a time service (chrony, systemd-timesyncd)",
        )
    return Finding("clock", State.OK, "kept in time")
