"""ZooKeeper servers that tests share; each test has nodes of its own under another chroot."""

from collections.abc import Iterator

import pytest

from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers
from tests.support.zookeeper import new_chroot, running_servers


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServers]:
    """Three servers. Tests leave them running."""
    with running_servers(tmp_path_factory.mktemp("zookeeper")) as servers:
        yield servers


@pytest.fixture
def connect(ensemble: ZooKeeperServers) -> str:
    """A connect string with a chroot that does not exist yet."""
    return ensemble.connect_string + new_chroot()
