"""A broker's access to ZooKeeper by its settings: time limits, chroot, identity and TLS."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers
from ottla.errors import StoreUnusable
from ottla.metadata.store import MetadataStore
from ottla.metadata.zookeeper.kazoo_client import KazooZnodes
from ottla.metadata.zookeeper.znodes import Create
from ottla.settings.kinds import Secret
from tests.support.certificates import make_certificates
from tests.support.free_port import free_port
from tests.support.metadata.sample_records import registration
from tests.support.zookeeper import (
    Clients,
    access_to,
    new_chroot,
    running_servers,
    seams,
    soon,
    store_factory,
    tell,
    until,
)

PASSWORD = "correct-horse-battery-staple"


async def open_store(directory: Path, settings: Mapping[str, str]) -> MetadataStore:
    factory = store_factory(**settings)
    return await factory.open(seams(), factory.home(seams().files, [str(directory)]))


def refused_start(directory: Path, **settings: str) -> StoreUnusable:
    """The error of a broker that cannot open its store."""

    async def start() -> None:
        store = await open_store(directory, settings)
        try:
            await store.load()
            await store.cluster_id("id")
        finally:
            await store.close()

    with pytest.raises(StoreUnusable) as caught:
        asyncio.run(start())
    assert list(directory.iterdir()) == []
    return caught.value


def works(directory: Path, **settings: str) -> None:
    """A broker can use the store for all that it does."""

    async def start() -> None:
        store = await open_store(directory, settings)
        try:
            await store.register(registration())
            fence = await store.campaign()
            await store.append([], fence)
            await store.drain()
        finally:
            await store.close()

    asyncio.run(start())


def test_the_session_timeout_is_the_one_that_the_servers_grant(
    connect: str, tmp_path: Path
) -> None:
    async def story(clients: Clients) -> None:
        for asked, granted in ((6_000, 6_000), (1, 1_000), (10**9, 120_000)):
            client = await clients.client(access_to(connect, session_timeout_ms=asked))
            assert client.session_timeout_ms == granted
        store: Any = await open_store(
            tmp_path, {"zookeeper_connect": connect, "zookeeper_session_timeout_ms": "7000"}
        )
        try:
            assert store._znodes.session_timeout_ms == 7_000
        finally:
            await store.close()

    tell(story)


def test_a_start_without_servers_fails_after_the_connection_timeout(tmp_path: Path) -> None:
    port = free_port()
    settings = {"zookeeper_connect": f"127.0.0.1:{port}/a"}
    began = time.monotonic()
    error = refused_start(tmp_path, **settings, zookeeper_connection_timeout_ms="700")
    assert time.monotonic() - began >= 0.7
    assert error.is_unreachable
    assert error.what == f"no ZooKeeper server at 127.0.0.1:{port} has answered within 0.7 s"
    assert error.why is not None
    assert "Connection refused" in error.why
    assert "--zookeeper" in error.advice
    # By default it is the session timeout.
    error = refused_start(tmp_path, **settings, zookeeper_session_timeout_ms="900")
    assert "within 0.9 s" in error.what


def test_a_server_that_accepts_and_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        error = refused_start(
            tmp_path,
            zookeeper_connect=f"127.0.0.1:{server.getsockname()[1]}",
            zookeeper_connection_timeout_ms="500",
            zookeeper_session_timeout_ms="60000",
        )
    assert error.is_unreachable


def test_a_host_without_an_address_is_named(tmp_path: Path) -> None:
    error = refused_start(
        tmp_path,
        zookeeper_connect="no-such-host.invalid:2181",
        zookeeper_connection_timeout_ms="500",
    )
    assert "no-such-host.invalid" in error.what
    assert error.why is not None
    assert "no-such-host.invalid" in error.why


def test_a_chroot_is_created_with_all_its_parents(ensemble: ZooKeeperServers) -> None:
    async def story(clients: Clients) -> None:
        chroot = f"{new_chroot()}/b/c"
        first = await clients.client(access_to(ensemble.connect_string + chroot))
        await first.multi([Create("/node", b"content")])
        # The next one finds it.
        second = await clients.client(access_to(ensemble.connect_string + chroot))
        await second.sync()
        found = await second.get("/node")
        assert found is not None
        assert found.data == b"content"
        root = await clients.client(access_to(ensemble.connect_string))
        await root.sync()
        assert await root.children(chroot) == ("node",)

    tell(story)


def test_two_clusters_under_different_chroots_do_not_see_each_other(
    ensemble: ZooKeeperServers,
) -> None:
    async def story(clients: Clients) -> None:
        first, second = [
            await clients.store(access_to(ensemble.connect_string + new_chroot())) for _ in range(2)
        ]
        assert await first.cluster_id("one") == "one"
        assert await second.cluster_id("two") == "two"
        await first.campaign()
        await soon(second.campaign())

    tell(story)


def test_a_chroot_that_may_not_be_created_is_named(
    ensemble: ZooKeeperServers, tmp_path: Path
) -> None:
    chroot = new_chroot()

    async def protect(clients: Clients) -> None:
        owner = access_to(
            ensemble.connect_string + chroot, digest=Secret(f"owner:{PASSWORD}"), sets_acl=True
        )
        await clients.client(owner)

    tell(protect)
    error = refused_start(tmp_path, zookeeper_connect=f"{ensemble.connect_string}{chroot}/b")
    assert f"the chroot {chroot}/b cannot be created" in error.what
    assert f"create {chroot}/b there" in error.advice


# kazoo leaves the socket of a failed handshake to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_nodes_are_for_the_identity_of_the_brokers_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The user of a digest file, or a client certificate."""
    caplog.set_level(logging.DEBUG)
    made = make_certificates(tmp_path)
    secure_port = free_port()
    pem = {"type": "PEM", "location": str(made.server)}
    tls = {
        "secureClientPort": str(secure_port),
        "secureClientPortAddress": "127.0.0.1",
        **{f"ssl.keyStore.{name}": value for name, value in pem.items()},
        "ssl.trustStore.type": "PEM",
        "ssl.trustStore.location": str(made.authority),
        "ssl.clientAuth": "need",
    }
    netty = {"zookeeper.serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory"}
    digest, other = tmp_path / "digest", tmp_path / "other"
    digest.write_text(f"brokers:{PASSWORD}\nmore\n")
    other.write_text(f"brokers:not-{PASSWORD}\n")
    data = tmp_path / "data"
    data.mkdir()
    with running_servers(tmp_path / "servers", 1, properties=netty, settings=tls) as servers:
        plain = {"zookeeper_connect": f"{servers.connect_string}/digest"}
        identity = {"ottla_zookeeper_auth_digest_file": str(digest)}
        works(data, **plain, **identity)
        for wrong in ({}, {"ottla_zookeeper_auth_digest_file": str(other)}):
            error = refused_start(data, **plain, **wrong)
            assert "denies access to /digest/" in error.what
            assert "ottla.zookeeper.auth.digest.file" in error.advice
        works(data, **plain, **identity)

        secure = {
            "zookeeper_connect": f"127.0.0.1:{secure_port}/tls",
            "zookeeper_set_acl": "true",
            "zookeeper_ssl_client_enable": "true",
            "zookeeper_ssl_truststore_location": str(made.authority),
            "zookeeper_ssl_keystore_location": str(made.client),
            "zookeeper_ssl_keystore_password": made.client_password,
        }
        works(data, **secure)
        for missing in (
            "zookeeper_ssl_client_enable",
            "zookeeper_ssl_truststore_location",
            "zookeeper_ssl_keystore_location",
            "zookeeper_ssl_keystore_password",
        ):
            lacking = {name: value for name, value in secure.items() if name != missing}
            lacking["zookeeper_connection_timeout_ms"] = "1500"
            assert refused_start(data, **lacking).is_unreachable, missing
        # The same nodes without the certificate.
        error = refused_start(data, zookeeper_connect=f"{servers.connect_string}/tls")
        assert "denies access to /tls/" in error.what
        # Without an identity there is nobody to protect nodes for.
        error = refused_start(
            data, zookeeper_connect=f"{servers.connect_string}/new", zookeeper_set_acl="true"
        )
        assert "knows no identity" in error.what
    assert PASSWORD not in caplog.text


def test_credentials_that_the_servers_do_not_accept_end_the_start(tmp_path: Path) -> None:
    digest, data = tmp_path / "digest", tmp_path / "data"
    digest.write_text(f"brokers:{PASSWORD}")
    data.mkdir()
    refusing = {"zookeeper.DigestAuthenticationProvider.enabled": "false"}
    with running_servers(tmp_path / "servers", 1, properties=refusing) as servers:
        error = refused_start(
            data,
            zookeeper_connect=servers.connect_string,
            ottla_zookeeper_auth_digest_file=str(digest),
        )
    assert "does not accept this broker's identity" in error.what
    assert PASSWORD not in f"{error.what}{error.why}{error.advice}"


@pytest.mark.parametrize(
    ("content", "what"), [(None, "cannot be read"), ("user", "has no user:password"), (":x", "has")]
)
def test_a_digest_file_without_credentials_is_named(
    tmp_path: Path, content: str | None, what: str
) -> None:
    digest, data = tmp_path / "digest", tmp_path / "data"
    data.mkdir()
    if content is not None:
        digest.write_text(content)
    error = refused_start(
        data, zookeeper_connect="127.0.0.1:1", ottla_zookeeper_auth_digest_file=str(digest)
    )
    assert f"{digest} {what}" in error.what


def test_a_client_that_could_not_connect_leaves_no_thread() -> None:
    threads = seams().threads

    def threads_of_kazoo() -> list[str]:
        return [each.name for each in threading.enumerate() if "zk_loop" in each.name]

    async def start() -> None:
        access = access_to(f"127.0.0.1:{free_port()}", connection_timeout_ms=300)
        starting = asyncio.create_task(KazooZnodes.connect(access, threads))
        await until(lambda: bool(threads_of_kazoo()))
        with pytest.raises(StoreUnusable):
            await starting
        assert threads_of_kazoo() == []

    asyncio.run(start())
    threads.close()
