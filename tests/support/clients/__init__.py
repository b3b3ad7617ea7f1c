"""Clients that others wrote, each behind the same two verbs: write records, read records."""

from tests.support.clients.aio_kafka import AioKafka
from tests.support.clients.client import Client
from tests.support.clients.java import Java
from tests.support.clients.kafka_python import KafkaPython
from tests.support.clients.kcat import Kcat
from tests.support.clients.librdkafka import Librdkafka

CLIENTS: tuple[Client, ...] = (Librdkafka(), KafkaPython(), AioKafka(), Kcat(), Java())
# The clients without a JVM, which is slow to start.
QUICK_CLIENTS = CLIENTS[:4]


def name_of(client: Client) -> str:
    """How a test's name calls it."""
    return client.name
