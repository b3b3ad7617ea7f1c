"""The connect string of ZooKeeper: its servers, and the node that contains the cluster's nodes."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from ottla.address import PORT_MAX, Address
from ottla.settings.kinds import ConfigType, Kind, NotAllowed

ZOOKEEPER_PORT_DEFAULT = 2181

_SERVER = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:,/\[\]]+))(?::([0-9]{1,5}))?")
# ZooKeeper allows more; these are the characters that every tool can print and quote.
_CHROOT = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")


class ConnectString(NamedTuple):
    """`chroot` begins with a slash; it is empty if the nodes are at the root."""

    servers: tuple[Address, ...]
    chroot: str

    def __str__(self) -> str:
        return ",".join(map(str, self.servers)) + self.chroot


@dataclass(frozen=True)
class ZooKeeperConnect(Kind[ConnectString]):
    """`host:port,host:port/chroot`, as every client of ZooKeeper writes it."""

    config_type = ConfigType.STRING
    allowed = "host:port[,host:port…][/chroot]"

    def parse(self, text: str) -> ConnectString:
        servers, slash, path = text.strip().partition("/")
        chroot = (slash + path).rstrip("/")
        names = chroot.split("/")
        if chroot and (not _CHROOT.fullmatch(chroot) or "." in names or ".." in names):
            raise NotAllowed(self.allowed)
        return ConnectString(tuple(map(self._server, servers.split(","))), chroot)

    def format(self, value: ConnectString) -> str:
        return str(value)

    def _server(self, text: str) -> Address:
        found = _SERVER.fullmatch(text.strip())
        port = int((found and found[3]) or ZOOKEEPER_PORT_DEFAULT)
        if found is None or not 0 < port <= PORT_MAX:
            raise NotAllowed(self.allowed)
        return Address(found[1] or found[2], port)
