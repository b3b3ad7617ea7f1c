"""What the figures were measured on."""

import os
import platform

from ottla.native import scan


def describe() -> str:
    with open("/proc/cpuinfo") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    native = "interpreted" if scan.__file__.endswith(".py") else "compiled"
    return (
        f"{len(models)} x {models[0] if models else platform.machine()}, {memory:.0f} GiB, "
        f"Linux {platform.release()}, Python {platform.python_version()}, native package {native}; "
        f"load average before the run {os.getloadavg()[0]:.2f}"
    )
