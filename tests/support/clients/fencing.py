"""Two producers of one client with one transactional id: the second fences the first.

The first sends `FENCED` and never gets to commit it, the second commits `COMMITTED`. Each function
returns the name of the error with which the first fails.
"""

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException, Producer

from tests.support.clients.client import WAIT_S
from tests.support.clients.kafka_python import KafkaError, KafkaProducer
from tests.support.compat.java_tools import JARS, JVM

FENCED, COMMITTED = b"fenced", b"committed"
JAVA_PROGRAM = Path("tests/compat/FencedProducer.java")


def librdkafka(servers: str, topic: str, transactional_id: str) -> str:
    def start() -> Producer:
        producer = Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        return producer

    first = start()
    first.produce(topic, FENCED, partition=0)
    assert first.flush(WAIT_S) == 0
    second = start()
    second.produce(topic, COMMITTED, partition=0)
    second.commit_transaction(WAIT_S)
    try:
        first.commit_transaction(WAIT_S)
    except KafkaException as error:
        return str(error.args[0].name()) if error.args[0].fatal() else ""
    return ""


def kafka_python(servers: str, topic: str, transactional_id: str) -> str:
    def start() -> KafkaProducer:
        producer = KafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
        producer.init_transactions()
        producer.begin_transaction()
        return producer

    first = start()
    first.send(topic, FENCED, partition=0).get(WAIT_S)
    second = start()
    try:
        second.send(topic, COMMITTED, partition=0).get(WAIT_S)
        second.commit_transaction()
        try:
            first.commit_transaction()
        except KafkaError as error:
            return type(error).__name__
    finally:
        first.close(timeout=0)
        second.close()
    return ""


def aiokafka(servers: str, topic: str, transactional_id: str) -> str:
    return asyncio.run(_aiokafka(servers, topic, transactional_id))


async def _aiokafka(servers: str, topic: str, transactional_id: str) -> str:
    async def start() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
        await producer.start()
        await producer.begin_transaction()
        return producer

    first = await start()
    await first.send_and_wait(topic, FENCED, partition=0)
    second = await start()
    try:
        await second.send_and_wait(topic, COMMITTED, partition=0)
        await second.commit_transaction()
        try:
            await first.commit_transaction()
        except AioKafkaError as error:
            return type(error).__name__
    finally:
        await first.stop()
        await second.stop()
    return ""


def java(servers: str, topic: str, transactional_id: str) -> str:
    finished = subprocess.run(
        ["java", *JVM, "-cp", f"{JARS}/*", str(JAVA_PROGRAM), servers, topic, transactional_id],
        capture_output=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        timeout=WAIT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout.decode().strip()


FENCES: dict[str, Callable[[str, str, str], str]] = {
    "librdkafka": librdkafka,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "java": java,
}
