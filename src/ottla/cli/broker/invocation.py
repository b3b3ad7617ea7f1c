"""The arguments of a broker's process, and of a supervisor of several."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ottla.cli.broker.settings import BrokerFlags, ClusterFlags

# The module that runs an invocation.
MODULE = "ottla.cli.broker.process"
_NUMBERS = ("port", "metrics-port", "brokers", "zookeeper-servers")


class BrokerMode(StrEnum):
    """The command that the process runs."""

    SERVE = "serve"
    UP = "up"
    # `ottla up --detach`: prints one line when it is ready, as `serve` does.
    UP_DETACHED = "up-detached"
    # The supervisor of several brokers: `ottla up --brokers`, and `serve --processes`.
    UP_CLUSTER = "up-cluster"
    UP_CLUSTER_DETACHED = "up-cluster-detached"
    SERVE_PROCESSES = "serve-processes"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInvocation:
    """A call of the broker process."""

    mode: BrokerMode
    flags: BrokerFlags
    # The user's name for this program, for hints on the next commands.
    program: str
    # Whether a failure prints its traceback.
    is_debugged: bool = False
    # For a supervisor, and for a broker that `ottla up --brokers` starts.
    cluster: ClusterFlags | None = None

    @property
    def command(self) -> list[str]:
        """The command that starts the process; readable in a list of processes."""
        given = {
            "data": self.flags.data,
            "host": self.flags.host,
            "port": self.flags.port,
            "metrics-port": self.flags.metrics_port,
            "zookeeper": self.flags.zookeeper,
            "config": self.flags.config,
            "program": self.program,
            "debug": "yes" if self.is_debugged else None,
        }
        if self.cluster is not None:
            given["brokers"] = self.cluster.brokers
            given["zookeeper-servers"] = self.cluster.zookeeper_servers
            given["no-restart"] = None if self.cluster.restarts else "yes"
        return [
            sys.executable,
            # Keeps files in the current directory from shadowing modules that we import.
            "-P",
            "-m",
            MODULE,
            self.mode,
            *(f"{name}={value}" for name, value in given.items() if value is not None),
            *(f"set={text}" for text in self.flags.sets),
        ]

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "BrokerInvocation":
        """Parses the arguments after the module's name in `command`."""
        pairs = [text.partition("=")[::2] for text in arguments[1:]]
        given = dict(pairs)
        numbers = {name: int(given[name]) for name in _NUMBERS if name in given}
        flags = BrokerFlags(
            data=given.get("data"),
            host=given.get("host"),
            port=numbers.get("port"),
            metrics_port=numbers.get("metrics-port"),
            zookeeper=given.get("zookeeper"),
            config=given.get("config"),
            sets=tuple(value for name, value in pairs if name == "set"),
        )
        cluster = None
        if "brokers" in given:
            cluster = ClusterFlags(
                brokers=numbers["brokers"],
                zookeeper_servers=numbers.get("zookeeper-servers"),
                restarts="no-restart" not in given,
            )
        return cls(
            mode=BrokerMode(arguments[0]),
            flags=flags,
            program=given["program"],
            is_debugged="debug" in given,
            cluster=cluster,
        )
