"""`ottla up --brokers N`: ZooKeeper servers and brokers on this machine, under one supervisor."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from ottla.address import PORT_DEFAULT, Address
from ottla.cli.broker.invocation import BrokerInvocation, BrokerMode
from ottla.cli.broker.pid_file import open_private, remove_pid, write_pid
from ottla.cli.broker.proc_table import LOCK_FILE, process_using
from ottla.cli.broker.settings import HOST_DEFAULT, BrokerFlags, ClusterFlags, load_settings
from ottla.cli.broker.start_failure import start_failure
from ottla.cli.broker.steps import Steps
from ottla.cli.cluster.broker_child import BrokerChild
from ottla.cli.cluster.cluster_file import (
    ClusterPorts,
    broker_directory,
    read_cluster_file,
    write_cluster_file,
    zookeeper_directory,
)
from ottla.cli.cluster.ports import LOOPBACK, ReservedPorts, choose_ports
from ottla.cli.cluster.supervisor import (
    Child,
    StopRequested,
    StopSignal,
    Supervisor,
    report,
    start_brokers,
    stop_brokers,
)
from ottla.cli.cluster.zookeeper_jars import find_zookeeper
from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import TableWriter, say
from ottla.seams.files import RealFiles
from ottla.settings.development import development_of_cluster
from ottla.settings.setting import ConfigSource
from ottla.settings.table.node import (
    ADVERTISED_LISTENERS,
    INTER_BROKER_LISTENER_NAME,
    LISTENER_SECURITY_PROTOCOL_MAP,
    LISTENERS,
    LOG_DIRS,
    METRICS_PORT,
    NODE_ID,
)
from ottla.settings.table.zookeeper import ZOOKEEPER_CONNECT

LOG_FILE = "ottla.log"
ZOOKEEPER_SERVERS_DEFAULT = 3
INTER_BROKER_LISTENER = "INTERNAL"
READY = "ready"
_ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
# Each broker has its own values of these.
_PER_BROKER = (
    NODE_ID,
    LISTENERS,
    ADVERTISED_LISTENERS,
    INTER_BROKER_LISTENER_NAME,
    LISTENER_SECURITY_PROTOCOL_MAP,
    LOG_DIRS,
    METRICS_PORT,
    ZOOKEEPER_CONNECT,
)


def run_cluster(invocation: BrokerInvocation) -> None:
    """Runs the supervisor in this process until a signal stops it. Failure if it does not start.

    Prints what runs where, and `ready` as the last line if it is detached.
    """
    cluster = _cluster_flags(invocation)
    flags = invocation.flags
    _check_flags(flags, cluster)
    data = data_of(flags)
    steps = Steps()
    stop = StopSignal()
    with ExitStack() as exits:
        exits.enter_context(stop.installed())
        try:
            with stop.raising():
                saved = check_data(data, cluster)
                jars = find_zookeeper()
                if os.path.isdir(data):
                    _lock(data, exits)
                ports = _choose_ports(flags, cluster, saved, exits)
                if not os.path.isdir(data):
                    # Not before: a start that fails leaves no directory behind.
                    os.makedirs(data, mode=0o700)
                    _lock(data, exits)
                servers = ZooKeeperServers(
                    Path(zookeeper_directory(data)),
                    ports.zookeeper_servers,
                    ports=ports.zookeeper,
                    jars=jars,
                )
                write_pid(data, os.getpid())
                exits.callback(remove_pid, data)
                write_cluster_file(data, ports)
                steps.done("settings read, ports chosen")
                exits.callback(servers.stop)
                servers.start()
                count = ports.zookeeper_servers
                noun = "server" if count == 1 else "servers"
                steps.done(f"ZooKeeper started: {count} {noun}, from {servers.jars.origin}")
                brokers = _brokers(invocation, cluster, data, ports, servers.connect_string)
                exits.callback(stop_brokers, brokers, report)
                start_brokers(brokers, stop)
        except StopRequested:
            say("stopped before it was up")
            return
        steps.done(f"{len(brokers)} brokers started: logs recovered, listening")
        _print_list(invocation, data, ports, servers, brokers)
        if invocation.mode is BrokerMode.UP_CLUSTER_DETACHED:
            print(READY, flush=True)
        children: list[Child] = [*servers.servers, *brokers]
        Supervisor(children, restarts=cluster.restarts, report=report).run(stop)
        if invocation.mode is BrokerMode.UP_CLUSTER:
            print("stopping the brokers, then ZooKeeper", flush=True)
    if invocation.mode is BrokerMode.UP_CLUSTER:
        print("stopped")


def start_cluster_detached(invocation: BrokerInvocation) -> None:
    """Starts the supervisor in its own session, and returns once all brokers are up. Failure."""
    cluster = _cluster_flags(invocation)
    _check_flags(invocation.flags, cluster)
    data = data_of(invocation.flags)
    saved = check_data(data, cluster)
    find_zookeeper()
    with ExitStack() as exits:
        # The supervisor looks again: a failure here is said plainly, and leaves nothing behind.
        if os.path.isdir(data):
            _lock(data, exits)
        _choose_ports(invocation.flags, cluster, saved, exits)
    os.makedirs(data, mode=0o700, exist_ok=True)
    log_path = os.path.join(data, LOG_FILE)
    with open(log_path, "ab", opener=open_private) as log:
        log_start = log.tell()
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            invocation.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    if child.stdout is None:
        raise RuntimeError("it has a pipe")
    with child.stdout as lines:
        for line in lines:
            if line.strip() == READY:
                return
            print(line, end="", flush=True)
    raise start_failure("the cluster", child.wait(), log_path, log_start)


def data_of(flags: BrokerFlags) -> str:
    return os.path.abspath(flags.data if flags.data is not None else LOG_DIRS.default[0])


def check_data(data: str, cluster: ClusterFlags) -> ClusterPorts | None:
    """The ports of the last start. Failure if the directory cannot be this cluster's."""
    if os.path.exists(os.path.join(data, "meta.properties")):
        raise Failure(
            f"{data} has the data of one broker",
            why="a cluster has a directory for each of its brokers, and its metadata in ZooKeeper",
            advice="choose another directory with --data; `ottla cluster promote` makes the broker"
            " the first one of a cluster, with its data",
        )
    saved = read_cluster_file(data)
    if saved is None:
        return None
    if cluster.brokers < len(saved.brokers):
        raise Failure(
            f"{data} has {len(saved.brokers)} brokers, and --brokers is {cluster.brokers}",
            why="partitions may have their replicas on the others",
            advice=f"start it with --brokers {len(saved.brokers)}; or begin anew in another"
            " directory with --data",
            exit_code=ExitCode.USAGE,
        )
    if cluster.zookeeper_servers not in (None, saved.zookeeper_servers):
        raise Failure(
            f"{data} has {saved.zookeeper_servers} ZooKeeper servers, and --zookeeper-servers is"
            f" {cluster.zookeeper_servers}",
            why="their number is fixed when the cluster is created",
            advice="leave out --zookeeper-servers; or begin anew in another directory with --data",
            exit_code=ExitCode.USAGE,
        )
    return saved


def _cluster_flags(invocation: BrokerInvocation) -> ClusterFlags:
    if invocation.cluster is None:
        raise RuntimeError("without options of a cluster")
    return invocation.cluster


def _check_flags(flags: BrokerFlags, cluster: ClusterFlags) -> None:
    """Failure for settings that all brokers would share but must not."""
    defaults = development_of_cluster(cluster.brokers)
    given = BrokerFlags(sets=flags.sets, config=flags.config)
    settings = load_settings(given, os.environ, defaults)
    for setting in _PER_BROKER:
        if settings.source_of(setting) is not ConfigSource.DEFAULT:
            raise Failure(
                f"{setting.name} is set, and each of the {cluster.brokers} brokers needs its own",
                advice="leave it out: `ottla up --brokers` chooses it for each broker; `ottla serve"
                " --zookeeper …` runs one broker with any settings",
                exit_code=ExitCode.USAGE,
            )
    if flags.host in _ANY_ADDRESS:
        raise Failure(
            "--host is every address of this machine, and clients need one that they can reach",
            why="a broker tells clients the addresses of the others",
            advice="name one address of this machine with --host",
            exit_code=ExitCode.USAGE,
        )


def _lock(data: str, exits: ExitStack) -> None:
    try:
        exits.callback(RealFiles().lock(os.path.join(data, LOCK_FILE)).release)
    except BlockingIOError:
        holder = process_using(data) or "a process that cannot be seen from here"
        raise Failure(
            f"{data} is in use by {holder}",
            advice="stop it (`ottla down`), or choose another directory with --data",
        ) from None


def _choose_ports(
    flags: BrokerFlags, cluster: ClusterFlags, saved: ClusterPorts | None, exits: ExitStack
) -> ClusterPorts:
    return choose_ports(
        ReservedPorts(exits).take,
        saved,
        brokers=cluster.brokers,
        zookeeper_servers=cluster.zookeeper_servers or ZOOKEEPER_SERVERS_DEFAULT,
        host=flags.host or HOST_DEFAULT,
        kafka_port=PORT_DEFAULT if flags.port is None else flags.port,
        metrics_port=flags.metrics_port,
    )


def _brokers(
    invocation: BrokerInvocation,
    cluster: ClusterFlags,
    data: str,
    ports: ClusterPorts,
    zookeeper: str,
) -> list[BrokerChild]:
    host = invocation.flags.host or HOST_DEFAULT
    brokers = []
    for broker_id, each in enumerate(ports.brokers, 1):
        directory = broker_directory(data, broker_id)
        listeners = (
            f"PLAINTEXT://{Address(host, each.kafka)},"
            f"{INTER_BROKER_LISTENER}://{Address(LOOPBACK, each.inter_broker)}"
        )
        protocols = f"PLAINTEXT:PLAINTEXT,{INTER_BROKER_LISTENER}:PLAINTEXT"
        flags = BrokerFlags(
            data=directory,
            metrics_port=each.metrics,
            zookeeper=zookeeper,
            config=invocation.flags.config,
            sets=(
                *invocation.flags.sets,
                f"{NODE_ID.name}={broker_id}",
                f"{LISTENERS.name}={listeners}",
                f"{LISTENER_SECURITY_PROTOCOL_MAP.name}={protocols}",
                f"{INTER_BROKER_LISTENER_NAME.name}={INTER_BROKER_LISTENER}",
            ),
        )
        member = BrokerInvocation(
            mode=BrokerMode.UP_DETACHED,
            flags=flags,
            program=invocation.program,
            is_debugged=invocation.is_debugged,
            cluster=cluster,
        )
        log = os.path.join(directory, LOG_FILE)
        brokers.append(BrokerChild(broker_id, member, directory, log))
    return brokers


def _print_list(
    invocation: BrokerInvocation,
    data: str,
    ports: ClusterPorts,
    servers: ZooKeeperServers,
    brokers: list[BrokerChild],
) -> None:
    print(flush=True)
    writer = TableWriter(sys.stdout)
    for server in servers.servers:
        writer.write(
            {
                "kind": "zookeeper",
                "zookeeper": server.number,
                "clients": str(Address(LOOPBACK, server.port)),
                "pid": server.pid,
                "data": str(server.directory),
            }
        )
    writer.close()
    print()
    writer = TableWriter(sys.stdout)
    for broker, each in zip(brokers, ports.brokers, strict=True):
        writer.write(
            {
                "kind": "broker",
                "broker": broker.broker_id,
                "kafka": broker.kafka,
                "inter_broker": str(Address(LOOPBACK, each.inter_broker)),
                "metrics": f"http://{broker.metrics}/metrics",
                "pid": broker.pid,
                "data": broker.data,
            }
        )
    writer.close()
    program = invocation.program
    bootstrap = ",".join(broker.kafka for broker in brokers)
    flag = f" --data {invocation.flags.data}" if invocation.flags.data else ""
    at = f" -b {brokers[0].kafka}" if brokers[0].kafka != f"{HOST_DEFAULT}:{PORT_DEFAULT}" else ""
    down = f"{program} down{flag}"
    first = "" if invocation.mode is BrokerMode.UP_CLUSTER_DETACHED else "Ctrl-C, or "
    lines = (
        ("Clients", bootstrap),
        ("ZooKeeper", servers.connect_string),
        ("Logs", os.path.join(data, "broker-*", LOG_FILE)),
        ("Try", f"{program} topic create greetings{at}"),
        ("Stop", f"{first}{down}"),
        ("Wipe", f"{down} --wipe --yes"),
    )
    print("\n" + "\n".join(f"{name:<11}{text}".rstrip() for name, text in lines), flush=True)
