"""How a broker reaches ZooKeeper: servers, chroot, time limits, identity and TLS."""

from dataclasses import dataclass

from ottla.settings.kinds import Secret
from ottla.settings.zookeeper_connect import ConnectString


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files. Without `trusted` the certificates of the machine are trusted."""

    trusted: str | None = None
    keystore: str | None = None
    keystore_password: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAccess:
    """`digest` is `user:password`. With `sets_acl` only this identity can use the nodes."""

    connect: ConnectString
    session_timeout_ms: int
    connection_timeout_ms: int
    digest: Secret | None = None
    sets_acl: bool = False
    tls: Tls | None = None
