"""A description of the machine that ran the benchmarks."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass

from ottla.native import scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    processor: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    java: str
    spark: str
    is_native_compiled: bool
    load_before: float

    def describe(self) -> str:
        native = "compiled" if self.is_native_compiled else "interpreted"
        return (
            f"{self.cores} x {self.processor}, {self.memory_gib:.0f} GiB, Linux {self.kernel}, "
            f"Python {self.python}, {self.java}, {self.spark}, native package {native}; "
            f"load average before the run {self.load_before:.2f}"
        )


def look() -> Machine:
    """Called before a run, so that the load average shows other work on the machine."""
    with open("/proc/cpuinfo") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return Machine(
        processor=models[0] if models else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        kernel=platform.release(),
        python=platform.python_version(),
        java=_java(),
        spark=_spark(),
        is_native_compiled=not scan.__file__.endswith(".py"),
        load_before=os.getloadavg()[0],
    )


def _java() -> str:
    if shutil.which("java") is None:
        return "no Java"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    return said.splitlines()[0].replace('"', "") if said else "Java of an unknown version"


def _spark() -> str:
    try:
        return f"pyspark {importlib.metadata.version('pyspark')}"
    except importlib.metadata.PackageNotFoundError:
        return "no pyspark"
