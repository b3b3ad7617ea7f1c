"""ZooKeeper, which has the metadata of a cluster of several brokers."""

from ottla.settings.kinds import Boolean, Password, Text, Unit, integer
from ottla.settings.setting import broker_setting
from ottla.settings.zookeeper_connect import ZooKeeperConnect

ZOOKEEPER_CONNECT = broker_setting(
    "zookeeper.connect",
    ZooKeeperConnect(),
    None,
    "The servers of the cluster's ZooKeeper as `host:port,host:port/chroot`, where the chroot is"
    " created if it does not exist; without it the broker is alone, and its metadata is in its log"
    " directory.",
)
ZOOKEEPER_SESSION_TIMEOUT_MS = broker_setting(
    "zookeeper.session.timeout.ms",
    integer(1, unit=Unit.MS),
    18_000,
    "The time after which a broker that ZooKeeper does not hear from counts as dead; the servers"
    " limit it (`minSessionTimeout`, `maxSessionTimeout`).",
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS = broker_setting(
    "zookeeper.connection.timeout.ms",
    integer(1, unit=Unit.MS),
    None,
    "The time for which a start waits for a server of ZooKeeper; by default"
    " `zookeeper.session.timeout.ms`.",
    described_by=ZOOKEEPER_SESSION_TIMEOUT_MS,
)
ZOOKEEPER_SET_ACL = broker_setting(
    "zookeeper.set.acl",
    Boolean(),
    False,
    "Whether only the broker's identity in ZooKeeper, its client certificate, can read and change"
    " the nodes that it creates; always so with `ottla.zookeeper.auth.digest.file`.",
)
ZOOKEEPER_AUTH_DIGEST_FILE = broker_setting(
    "ottla.zookeeper.auth.digest.file",
    Text(),
    None,
    "A file whose first line is `user:password`, the identity of all brokers of the cluster in"
    " ZooKeeper: only it can read and change the nodes that they create.",
)
ZOOKEEPER_SSL_CLIENT_ENABLE = broker_setting(
    "zookeeper.ssl.client.enable",
    Boolean(),
    False,
    "Whether connections to ZooKeeper use TLS; `zookeeper.connect` then has its secure ports.",
)
ZOOKEEPER_SSL_TRUSTSTORE_LOCATION = broker_setting(
    "zookeeper.ssl.truststore.location",
    Text(),
    None,
    "A PEM file of the certificates that ZooKeeper's are checked against; by default those of the"
    " machine.",
)
ZOOKEEPER_SSL_KEYSTORE_LOCATION = broker_setting(
    "zookeeper.ssl.keystore.location",
    Text(),
    None,
    "A PEM file with the private key and the certificate of this broker, for servers that ask for"
    " one.",
)
ZOOKEEPER_SSL_KEYSTORE_PASSWORD = broker_setting(
    "zookeeper.ssl.keystore.password",
    Password(),
    None,
    "The password of the private key in `zookeeper.ssl.keystore.location`.",
)
