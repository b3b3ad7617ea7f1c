"""`ottla serve --zookeeper … --processes N`: several brokers of a cluster under one supervisor.

For a machine with several cores: a broker uses one.
"""

import os
from contextlib import ExitStack
from dataclasses import replace

from ottla.address import PORT_MAX
from ottla.cli.broker.invocation import BrokerInvocation, BrokerMode
from ottla.cli.broker.proc_table import is_listened_on, process_listening_on
from ottla.cli.broker.settings import BrokerFlags, data_directory, load_settings
from ottla.cli.cluster.broker_child import BrokerChild
from ottla.cli.cluster.cluster_file import broker_directory
from ottla.cli.cluster.supervisor import (
    StopRequested,
    StopSignal,
    Supervisor,
    report,
    start_brokers,
    stop_brokers,
)
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.settings.broker import BrokerSettings
from ottla.settings.listeners import ListenerAddress
from ottla.settings.table.node import (
    ADVERTISED_LISTENERS,
    LISTENERS,
    LOG_DIRS,
    METRICS_PORT,
    NODE_ID,
)
from ottla.settings.table.zookeeper import ZOOKEEPER_CONNECT

READY = "ready"


def serve_processes(invocation: BrokerInvocation) -> None:
    """Runs until a signal stops it. Standard output has one line, when all brokers are ready."""
    if invocation.cluster is None:
        raise RuntimeError("without options of a cluster")
    settings = load_settings(invocation.flags, os.environ)
    members = member_flags(invocation.flags, settings, invocation.cluster.brokers)
    brokers = [
        BrokerChild(
            broker_id,
            replace(invocation, mode=BrokerMode.SERVE, flags=flags, cluster=None),
            flags.data or "",
            None,
        )
        for broker_id, flags in members.items()
    ]
    stop = StopSignal()
    with ExitStack() as exits:
        exits.enter_context(stop.installed())
        exits.callback(stop_brokers, brokers, report)
        try:
            with stop.raising():
                start_brokers(brokers, stop)
        except StopRequested:
            return
        kafka = ",".join(broker.kafka for broker in brokers)
        metrics = ",".join(broker.metrics for broker in brokers)
        print(f"{READY} kafka={kafka} metrics={metrics} pid={os.getpid()}", flush=True)
        Supervisor(brokers, restarts=True, report=report).run(stop)


def member_flags(
    flags: BrokerFlags, settings: BrokerSettings, count: int
) -> dict[int, BrokerFlags]:
    """The options of each broker, by its id. Failure if they contradict each other."""
    if settings[ZOOKEEPER_CONNECT] is None:
        raise Failure(
            "--processes needs --zookeeper",
            why="brokers without a cluster would not know each other",
            advice="name the cluster's ZooKeeper with --zookeeper HOST:PORT[,…][/CHROOT]; `ottla up"
            " --brokers 3` starts a cluster with a ZooKeeper of its own",
            exit_code=ExitCode.USAGE,
        )
    if len(settings[LOG_DIRS]) > 1:
        raise Failure(
            f"{LOG_DIRS.name} has several directories, and --processes needs one",
            why="each broker has a directory inside",
            advice="name one directory with --data",
            exit_code=ExitCode.USAGE,
        )
    first_id = settings[NODE_ID]
    data = data_directory(settings)
    _check_ports(settings, count)
    members = {}
    for index in range(count):
        listeners = _moved(settings[LISTENERS], index)
        sets = [
            *(text for text in flags.sets if text.partition("=")[0] not in _OWN),
            f"{NODE_ID.name}={first_id + index}",
            f"{LISTENERS.name}={listeners}",
        ]
        advertised = settings[ADVERTISED_LISTENERS]
        if advertised is not None:
            sets.append(f"{ADVERTISED_LISTENERS.name}={_moved(advertised, index)}")
        members[first_id + index] = BrokerFlags(
            data=broker_directory(data, first_id + index),
            metrics_port=_port(settings[METRICS_PORT], index),
            zookeeper=str(settings[ZOOKEEPER_CONNECT]),
            config=flags.config,
            sets=tuple(sets),
        )
    return members


_OWN = frozenset(
    name
    for setting in (NODE_ID, LISTENERS, ADVERTISED_LISTENERS, LOG_DIRS, METRICS_PORT)
    for name in (setting.name, "broker.id", "log.dir")
) | {ZOOKEEPER_CONNECT.name}


def _port(port: int, index: int) -> int:
    """The port of a broker; 0 is any free one for each."""
    return port + index if port else 0


def _moved(listeners: tuple[ListenerAddress, ...], index: int) -> str:
    return ",".join(str(each._replace(port=_port(each.port, index))) for each in listeners)


def _check_ports(settings: BrokerSettings, count: int) -> None:
    """Failure if two brokers would have one port, there are not enough, or one is taken."""
    flags = {each.port: "--port" for each in settings[LISTENERS] if each.port}
    if settings[METRICS_PORT]:
        flags[settings[METRICS_PORT]] = "--metrics-port"
    used: dict[int, int] = {}
    for first, flag in flags.items():
        if first + count - 1 > PORT_MAX:
            raise Failure(
                f"{count} brokers need the ports {first} to {first + count - 1}",
                why=f"the last port is {PORT_MAX}",
                advice=f"choose a lower one with {flag}",
                exit_code=ExitCode.USAGE,
            )
        for port in range(first, first + count):
            if port in used:
                raise Failure(
                    f"two brokers would listen on port {port}",
                    why=f"the ports {used[port]} and {first} are counted up {count} times",
                    advice=f"choose ports that are further apart with {flag}",
                    exit_code=ExitCode.USAGE,
                )
            used[port] = first
            if is_listened_on(port):
                holder = process_listening_on(port) or "a process of another user"
                raise Failure(
                    f"port {port} is taken by {holder}",
                    advice=f"stop it, or choose other ports with {flag}",
                )
