"""`ottla-cluster.json` in the directory of a cluster: its size, and the ports that it had last."""

import json
import os
from dataclasses import asdict, dataclass

from ottla.cli.broker.pid_file import open_private
from ottla.cli.shared.failure import Failure

FILE_NAME = "ottla-cluster.json"
FORMAT = 1
PORTS_PER_SERVER = 3


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """The ports of one broker."""

    kafka: int
    inter_broker: int
    metrics: int


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """`zookeeper` has three for each server: for clients, followers and the election.

    `brokers` are those of brokers 1, 2, ….
    """

    zookeeper: tuple[int, ...]
    brokers: tuple[BrokerPorts, ...]

    @property
    def zookeeper_servers(self) -> int:
        return len(self.zookeeper) // PORTS_PER_SERVER


def broker_directory(data: str, broker_id: int) -> str:
    return os.path.join(data, f"broker-{broker_id}")


def zookeeper_directory(data: str) -> str:
    return os.path.join(data, "zookeeper")


def is_cluster_directory(data: str) -> bool:
    """Whether `ottla up --brokers` has used it."""
    return os.path.exists(os.path.join(data, FILE_NAME))


def read_cluster_file(data: str) -> ClusterPorts | None:
    """None if there is none. Failure if it is damaged."""
    path = os.path.join(data, FILE_NAME)
    try:
        with open(path, encoding="utf-8") as file:
            found = json.loads(file.read(1 << 20))
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']}, only {FORMAT} is known")
        brokers = tuple(BrokerPorts(**each) for each in found["brokers"])
        return ClusterPorts(tuple(map(int, found["zookeeper"])), brokers)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(
            f"{path} cannot be read",
            why=str(error) or type(error).__name__,
            advice="it only has the size of the cluster and its last ports: remove it, and start"
            " with as many brokers as there are broker-N directories beside it",
        ) from None


def write_cluster_file(data: str, ports: ClusterPorts) -> None:
    """Writes the file atomically."""
    path = os.path.join(data, FILE_NAME)
    with open(f"{path}.tmp", "w", encoding="utf-8", opener=open_private) as file:
        json.dump({"format": FORMAT, **asdict(ports)}, file)
        file.write("\n")
    os.replace(f"{path}.tmp", path)
