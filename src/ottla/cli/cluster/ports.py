"""The ports of a cluster on this machine: those of the last start if they are still free."""

import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ottla.address import PORT_MAX, Address
from ottla.cli.broker.proc_table import process_listening_on
from ottla.cli.cluster.cluster_file import PORTS_PER_SERVER, BrokerPorts, ClusterPorts
from ottla.cli.shared.failure import ExitCode, Failure

LOOPBACK = "127.0.0.1"


class ReservedPorts:
    """Keeps ports bound without listening, so that the kernel gives them to nobody else.

    Our own children can listen on them, because all reuse addresses. A port stays ours while a
    child that has ended is started again.
    """

    def __init__(self, exits: ExitStack) -> None:
        self._exits = exits

    def take(self, host: str, port: int) -> int:
        """Port 0 is any free one. OSError if the port is taken."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        kept = socket.socket(family)
        try:
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            kept.bind((host, port))
        except OSError:
            kept.close()
            raise
        self._exits.enter_context(kept)
        return int(kept.getsockname()[1])


Take = Callable[[str, int], int]


def choose_ports(
    take: Take,
    saved: ClusterPorts | None,
    *,
    brokers: int,
    zookeeper_servers: int,
    host: str,
    kafka_port: int,
    metrics_port: int | None,
) -> ClusterPorts:
    """Brokers listen on `kafka_port` and the following ports; 0 is any free ones.

    Failure if one of these is taken. The other ports are free ones.
    """
    kafka = consecutive(kafka_port, brokers, "--port")
    metrics = consecutive(metrics_port or 0, brokers, "--metrics-port")
    had = saved.brokers if saved is not None else ()
    chosen = []
    for index in range(brokers):
        last = had[index] if index < len(had) else BrokerPorts(0, 0, 0)
        chosen.append(
            BrokerPorts(
                kafka=_given(take, host, kafka[index], last.kafka, "--port"),
                inter_broker=_preferred(take, LOOPBACK, last.inter_broker),
                metrics=_given(take, LOOPBACK, metrics[index], last.metrics, "--metrics-port"),
            )
        )
    wanted = saved.zookeeper if saved is not None else (0,) * (PORTS_PER_SERVER * zookeeper_servers)
    return ClusterPorts(tuple(_preferred(take, LOOPBACK, port) for port in wanted), tuple(chosen))


def consecutive(port: int, count: int, flag: str) -> Sequence[int]:
    """`count` ports from this one on; all 0 for 0. Failure if there are not so many."""
    if port == 0:
        return (0,) * count
    if port + count - 1 > PORT_MAX:
        raise Failure(
            f"{count} brokers need the ports {port} to {port + count - 1}",
            why=f"the last port is {PORT_MAX}",
            advice=f"choose a lower one with {flag}",
            exit_code=ExitCode.USAGE,
        )
    return range(port, port + count)


def _given(take: Take, host: str, port: int, last: int, flag: str) -> int:
    """The port that the user chose; for 0 the last one, or any."""
    if port == 0:
        return _preferred(take, host, last)
    try:
        return take(host, port)
    except OSError as error:
        raise taken(host, port, flag, error) from None


def _preferred(take: Take, host: str, port: int) -> int:
    try:
        return take(host, port)
    except OSError:
        return take(host, 0)


def taken(host: str, port: int, flag: str, error: OSError) -> Failure:
    """Names the process that listens there, if we may see it."""
    holder = process_listening_on(port)
    if holder is None:
        return Failure(
            f"{Address(host, port)} cannot be used",
            why=error.strerror,
            advice=f"choose another port with {flag} (0 is any free ones)",
        )
    return Failure(
        f"port {port} is taken by {holder}",
        advice=f"stop it, or choose other ports with {flag} (0 is any free ones)",
    )
