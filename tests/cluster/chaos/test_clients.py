"""The clients of the chaos workload go on, whatever a broker tells them."""

import random
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Broker
from tests.cluster.chaos.clients.process import Options
from tests.cluster.chaos.history import Sent, Step, read_history
from tests.cluster.chaos.waiting import wait_until
from tests.cluster.chaos.workload import TRANSACTIONS, ClientProcess

NAME = "transactional"
SEED = 1
# Each meets the client in another step of its transaction.
FENCES = 12
WAIT_S = 60.0


def committed(path: Path) -> int:
    return path.read_text().count(f'"step": "{Step.COMMITTED}"')


def test_a_transactional_client_that_is_fenced_goes_on_with_another_producer(
    tmp_path: Path,
) -> None:
    """Wherever it learns of it: in a call of the transaction, or while it flushes its records."""
    at = random.Random(SEED)
    with Broker() as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic(TRANSACTIONS, 3, 1)])[TRANSACTIONS].result()
        path = tmp_path / f"{NAME}.jsonl"
        # Without a pause between transactions.
        options = Options(servers, NAME, str(path), SEED, (TRANSACTIONS,), 3, per_second=1_000)
        client = ClientProcess(NAME, options, prefix=())
        try:
            for _ in range(FENCES):
                before = committed(path)
                wait_until(
                    lambda before=before: client.has_ended or committed(path) > before + 2,
                    WAIT_S,
                    lambda: f"transactions are committed: {client.errors()}",
                )
                assert not client.has_ended, client.errors()
                time.sleep(at.random() * 0.02)
                Producer(
                    {"bootstrap.servers": servers, "transactional.id": NAME}
                ).init_transactions(WAIT_S)
            client.ask_to_end()
            assert client.end(time.monotonic() + WAIT_S), client.errors()
        finally:
            client.kill()
    sent = [each for each in read_history(path) if isinstance(each, Sent)]
    assert len({each.producer for each in sent}) > 1
