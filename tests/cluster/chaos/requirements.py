"""What the chaos tests need of the machine; one message says all that is missing."""

import os
import shutil

from ottla.cli.cluster.zookeeper_jars import find_zookeeper
from ottla.cli.shared.failure import Failure

# Commands, and the Debian packages that have them.
COMMANDS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "cc": "gcc libc6-dev",
}


class RequirementMissing(Exception):
    """The machine lacks something. Never a reason to skip a test."""


def check_requirements() -> None:
    """RequirementMissing with everything that is missing."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root: network namespaces and mounts need it")
    for command, package in COMMANDS.items():
        if shutil.which(command) is None:
            missing.append(f"the command {command} (Debian: apt install {package})")
    try:
        find_zookeeper()
    except Failure as failure:
        missing.append(str(failure))
    if missing:
        raise RequirementMissing("chaos tests need " + "; ".join(missing))
