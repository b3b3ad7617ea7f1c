"""One broker for all tests of clients in a process, and a topic for each test."""

from collections.abc import Iterator

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from ottla.testing import Broker
from tests.support.compat.kafka_peer import kafka_peer

# The tests of a file, or of all files of one name here, share an Apache Kafka.
SHARED_KAFKA = {
    "test_cli_group.py": "any settings",
    "test_cluster_administration.py": "any settings",
    "test_examples.py": "any settings",
    "test_produce_answers.py": "any settings",
    "test_read_topic.py": "any settings",
    "test_cli_txn.py": "test_cli_txn.py",
    "test_group_answers.py": "test_group_answers.py",
    "test_transaction_answers.py": "test_transaction_answers.py",
}


class OneProcessPerKafka(LoadScopeScheduling):
    """Tests that share an Apache Kafka run in one process, so that it is started once."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0].rpartition("/")[2]
        return SHARED_KAFKA.get(file, nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneProcessPerKafka | None:
    return OneProcessPerKafka(config, log) if config.getvalue("dist") == "load" else None


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """It keeps records of any age: a test may take longer than until it looks for old ones."""
    with Broker({"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One for all tests that need no settings of their own."""
    with kafka_peer(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic(ottla_topic: str) -> str:
    return ottla_topic
