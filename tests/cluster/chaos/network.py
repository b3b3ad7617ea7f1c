"""A network of hosts that the test has made, and what goes wrong in it.

Packets are dropped where they arrive, without an answer, also those of established connections:
the two ends notice nothing but silence.
"""

import itertools
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from tests.cluster.chaos.namespaces import Namespace, remove_leftovers, run_command

_BRIDGE = "switch0"
_INTERFACE = "eth0"
_SUBNET = "10.77.0"
_NUMBERS = itertools.count(1)
CONNECT_TIMEOUT_S = 1.5
_PROBES, _PROBE_TIMEOUT_S = 3, 0.2
# More than the bucket's burst, so that its rate shows.
_TRANSFER_BYTES = 256 << 10
_TRANSFER_TIMEOUT_S = 60.0

# `pairs` and `ports` are filled by faults: packets from the first to the second address, and those
# from or to a port. `lossy` has the hosts that lose a part of all that arrives.
_RULES = """
table inet chaos {
    set pairs { type ipv4_addr . ipv4_addr; }
    set ports { type ipv4_addr . ipv4_addr . inet_service; }
    set lossy { type ipv4_addr; }
    chain input {
        type filter hook input priority 0;
        ip saddr . ip daddr @pairs drop
        ip saddr . ip daddr . tcp dport @ports drop
        ip daddr . ip saddr . tcp sport @ports drop
        ip daddr @lossy iif != lo numgen random mod 100 < LOSS_PERCENT drop
    }
}
"""
LOSS_PERCENT = 3
# Linux's netem is not in every kernel, a token bucket is: the queue before it is the delay.
SLOW_BITS_PER_S = 4_000_000
SLOW_BURST_BYTES = 16 << 10
SLOW_QUEUE = "400ms"
# The shortest time that a slow host can need for `transfer_seconds`.
SLOW_TRANSFER_S = (_TRANSFER_BYTES - SLOW_BURST_BYTES) * 8 / SLOW_BITS_PER_S


class NetworkHost:
    """One machine of the network: an address, and a namespace for its processes."""

    def __init__(self, name: str, address: str, label: str) -> None:
        self.name = name
        self.address = address
        self.namespace = Namespace(label)

    def __repr__(self) -> str:
        return self.name


class Network:
    """Hosts on one switch, from `open` to `close`. No other process of the machine is on it."""

    def __init__(self, names: Sequence[str]) -> None:
        number = next(_NUMBERS)
        self._switch = Namespace(f"{number}-switch")
        self._exits = ExitStack()
        self.hosts = {
            name: NetworkHost(name, f"{_SUBNET}.{index}", f"{number}-{name}")
            for index, name in enumerate(names, 1)
        }

    def open(self) -> None:
        remove_leftovers()
        try:
            self._add(self._switch)
            switch = self._switch.name
            run_command(["ip", "-n", switch, "link", "add", _BRIDGE, "type", "bridge"])
            run_command(["ip", "-n", switch, "link", "set", _BRIDGE, "up"])
            for host in self.hosts.values():
                self._plug_in(host)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._exits.close()

    def cut(self, source: NetworkHost, target: NetworkHost) -> None:
        """Nothing of the source reaches the target; the other way is left."""
        self._element("add", target, "pairs", f"{source.address} . {target.address}")

    def mend(self, source: NetworkHost, target: NetworkHost) -> None:
        self._element("delete", target, "pairs", f"{source.address} . {target.address}")

    def cut_port(self, client: NetworkHost, server: NetworkHost, port: int) -> None:
        """The client's connections to that port get no packet in either direction."""
        for host in _distinct(client, server):
            self._element("add", host, "ports", f"{client.address} . {server.address} . {port}")

    def mend_port(self, client: NetworkHost, server: NetworkHost, port: int) -> None:
        for host in _distinct(client, server):
            self._element("delete", host, "ports", f"{client.address} . {server.address} . {port}")

    def slow_down(self, host: NetworkHost) -> None:
        """The host sends slowly, behind a queue, and loses packets that it should get."""
        rate, burst = f"{SLOW_BITS_PER_S}bit", f"{SLOW_BURST_BYTES}b"
        bucket = ["rate", rate, "burst", burst, "latency", SLOW_QUEUE]
        self._qdisc(host, "add", ["tbf", *bucket])
        self._element("add", host, "lossy", host.address)

    def speed_up(self, host: NetworkHost) -> None:
        self._qdisc(host, "del", [])
        self._element("delete", host, "lossy", host.address)

    def transfer_seconds(self, source: NetworkHost, target: NetworkHost) -> float:
        """The time for a transfer of some KiB on a new connection."""
        listener = target.namespace.call(lambda: socket.create_server((target.address, 0)))
        with listener:
            port = int(listener.getsockname()[1])
            begin = time.monotonic()
            sending = threading.Thread(
                target=lambda: source.namespace.call(lambda: _send(target, port))
            )
            sending.start()
            listener.settimeout(_TRANSFER_TIMEOUT_S)
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(_TRANSFER_TIMEOUT_S)
                while connection.recv(1 << 16):
                    pass
            sending.join()
        return time.monotonic() - begin

    def _plug_in(self, host: NetworkHost) -> None:
        self._add(host.namespace)
        name, switch, port = host.namespace.name, self._switch.name, f"to-{host.name}"
        link = ["ip", "-n", switch, "link"]
        run_command([*link, "add", port, "type", "veth", "peer", "name", _INTERFACE, "netns", name])
        run_command([*link, "set", port, "master", _BRIDGE, "up"])
        run_command(["ip", "-n", name, "addr", "add", f"{host.address}/24", "dev", _INTERFACE])
        run_command(["ip", "-n", name, "link", "set", _INTERFACE, "up"])
        rules = _RULES.replace("LOSS_PERCENT", str(LOSS_PERCENT))
        run_command([*host.namespace.prefix, "nft", "-f", "-"], stdin=rules)

    def _add(self, namespace: Namespace) -> None:
        self._exits.callback(namespace.remove)
        namespace.add()

    def _element(self, verb: str, host: NetworkHost, of: str, element: str) -> None:
        rule = f"{verb} element inet chaos {of} {{ {element} }}"
        run_command([*host.namespace.prefix, "nft", rule])

    def _qdisc(self, host: NetworkHost, verb: str, options: Iterable[str]) -> None:
        command = ["tc", "-n", host.namespace.name, "qdisc", verb, "dev", _INTERFACE, "root"]
        run_command([*command, *options])


def connect_times_out(source: NetworkHost, target: NetworkHost, port: int) -> bool:
    """Whether a connection attempt is met by silence. A refusal is an answer."""

    def attempt() -> bool:
        try:
            with socket.create_connection((target.address, port), CONNECT_TIMEOUT_S):
                return False
        except TimeoutError:
            return True
        except ConnectionRefusedError:
            return False

    return source.namespace.call(attempt)


def _send(target: NetworkHost, port: int) -> None:
    with socket.create_connection((target.address, port), _TRANSFER_TIMEOUT_S) as connection:
        connection.sendall(bytes(_TRANSFER_BYTES))


def datagram_arrives(source: NetworkHost, target: NetworkHost) -> bool:
    """Whether one of several packets gets from the source to the target: this way alone."""
    receiver = target.namespace.call(lambda: _bound_socket(target))
    sender = source.namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with receiver, sender:
        for _ in range(_PROBES):
            sender.sendto(b"probe", receiver.getsockname())
            try:
                return bool(receiver.recv(16))
            except TimeoutError:
                continue
    return False


def _bound_socket(host: NetworkHost) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind((host.address, 0))
    bound.settimeout(_PROBE_TIMEOUT_S)
    return bound


def _distinct(*hosts: NetworkHost) -> Iterable[NetworkHost]:
    """A host may be client and server: its packets arrive once, on the loopback."""
    return dict.fromkeys(hosts)
