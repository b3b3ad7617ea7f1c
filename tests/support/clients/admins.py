"""The admin side of each client: operations on topics, and their error codes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from typing import Any, Protocol

from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.errors import BrokerResponseError
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.support.clients import kafka_python
from tests.support.clients.client import WAIT_S

DONE = 0


class Admin(Protocol):
    """Methods that change something return the error code of the topic."""

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> int: ...

    def delete(self, topic: str) -> int: ...

    def grow(self, topic: str, partitions: int) -> int: ...

    def topics(self) -> dict[str, int]:
        """How many partitions each topic has."""
        ...

    def configs(self, topic: str) -> dict[str, str | None]: ...

    def alter(self, topic: str, configs: Mapping[str, str]) -> int: ...

    def delete_records(self, topic: str, before: int) -> int:
        """Where partition 0 begins then."""
        ...


OpenAdmin = Callable[[str], Admin]


class LibrdkafkaAdmin:
    def __init__(self, servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers})

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> int:
        asked = NewTopic(topic, partitions, 1, config=dict(configs))
        return self._code(self._admin.create_topics([asked])[topic])

    def delete(self, topic: str) -> int:
        return self._code(self._admin.delete_topics([topic])[topic])

    def grow(self, topic: str, partitions: int) -> int:
        return self._code(self._admin.create_partitions([NewPartitions(topic, partitions)])[topic])

    def topics(self) -> dict[str, int]:
        listed = self._admin.list_topics(timeout=WAIT_S).topics
        return {name: len(topic.partitions) for name, topic in listed.items()}

    def configs(self, topic: str) -> dict[str, str | None]:
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self._admin.describe_configs([asked])[asked].result(WAIT_S)
        return {name: entry.value for name, entry in found.items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> int:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
        return self._code(self._admin.incremental_alter_configs([asked])[asked])

    def delete_records(self, topic: str, before: int) -> int:
        asked = TopicPartition(topic, 0, before)
        return int(self._admin.delete_records([asked])[asked].result(WAIT_S).low_watermark)

    def _code(self, coming: Any) -> int:
        try:
            coming.result(WAIT_S)
        except KafkaException as error:
            return int(error.args[0].code())
        return DONE


class KafkaPythonAdmin:
    """A client for each question: one that is not closed keeps a thread that never ends."""

    def __init__(self, servers: str) -> None:
        self._servers = servers

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> int:
        asked = kafka_python.NewTopic(topic, partitions, 1, topic_configs=dict(configs))
        answer = self._ask(lambda admin: admin.create_topics([asked], raise_errors=False))
        return int(answer["topics"][0]["error_code"])

    def delete(self, topic: str) -> int:
        answer = self._ask(lambda admin: admin.delete_topics([topic], raise_errors=False))
        return int(answer["topics"][0]["error_code"])

    def grow(self, topic: str, partitions: int) -> int:
        asked = {topic: kafka_python.NewPartitions(partitions)}
        answer = self._ask(lambda admin: admin.create_partitions(asked, raise_errors=False))
        return int(answer.results[0].error_code)

    def topics(self) -> dict[str, int]:
        described = self._ask(lambda admin: admin.describe_topics())
        return {topic["name"]: len(topic["partitions"]) for topic in described}

    def configs(self, topic: str) -> dict[str, str | None]:
        asked = kafka_python.ConfigResource(kafka_python.ConfigResourceType.TOPIC, topic)
        told = self._ask(lambda admin: admin.describe_configs([asked], config_filter="all"))
        return {name: entry["value"] for name, entry in told["topic"][topic].items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> int:
        kind = kafka_python.ConfigResourceType.TOPIC
        asked = kafka_python.ConfigResource(kind, topic, dict(configs))
        told = self._ask(lambda admin: admin.alter_configs([asked], raise_on_unknown=False))
        answer = told["topic"][topic]
        return DONE if answer == "OK" else int(answer.removeprefix("[Error ").partition("]")[0])

    def configured(self) -> dict[str, list[str]]:
        """The names of all that has settings, by kind."""
        listed: dict[str, list[str]] = self._ask(lambda admin: admin.list_config_resources())
        return listed

    def delete_records(self, topic: str, before: int) -> int:
        partition = kafka_python.TopicPartition(topic, 0)
        answer = self._ask(lambda admin: admin.delete_records({partition: before}))
        return int(answer[partition]["low_watermark"])

    def _ask(self, ask: Callable[[kafka_python.KafkaAdminClient], Any]) -> Any:
        with closing(kafka_python.KafkaAdminClient(bootstrap_servers=self._servers)) as admin:
            return ask(admin)


class AioKafkaAdmin:
    def __init__(self, servers: str) -> None:
        self._servers = servers

    def create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> int:
        asked = AioNewTopic(topic, partitions, 1, topic_configs=dict(configs))
        answer = self._run(lambda admin: admin.create_topics([asked]))
        return int(answer.topic_errors[0][1])

    def delete(self, topic: str) -> int:
        answer = self._run(lambda admin: admin.delete_topics([topic]))
        return int(answer.topic_error_codes[0][1])

    def grow(self, topic: str, partitions: int) -> int:
        asked = {topic: AioNewPartitions(partitions)}
        try:
            answer = self._run(lambda admin: admin.create_partitions(asked))
        except BrokerResponseError as error:
            return int(error.errno)
        return int(answer.topic_errors[0][1])

    def topics(self) -> dict[str, int]:
        described = self._run(lambda admin: admin.describe_topics())
        return {topic["topic"]: len(topic["partitions"]) for topic in described}

    def configs(self, topic: str) -> dict[str, str | None]:
        asked = AioConfigResource(AioConfigResourceType.TOPIC, topic)
        [answer] = self._run(lambda admin: admin.describe_configs([asked]))
        [(_, _, _, _, entries)] = answer.resources
        return {entry[0]: entry[1] for entry in entries}

    def alter(self, topic: str, configs: Mapping[str, str]) -> int:
        asked = AioConfigResource(AioConfigResourceType.TOPIC, topic, dict(configs))
        [answer] = self._run(lambda admin: admin.alter_configs([asked]))
        [(code, *_)] = answer.resources
        return int(code)

    def delete_records(self, topic: str, before: int) -> int:
        partition = AioTopicPartition(topic, 0)
        asked = {partition: RecordsToDelete(before_offset=before)}
        return int(self._run(lambda admin: admin.delete_records(asked))[partition])

    def _run(self, ask: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
        return asyncio.run(self._ask(ask))

    async def _ask(self, ask: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._servers)
        await admin.start()
        try:
            return await ask(admin)
        finally:
            await admin.close()


ADMINS: dict[str, OpenAdmin] = {
    "librdkafka": LibrdkafkaAdmin,
    "kafka-python": KafkaPythonAdmin,
    "aiokafka": AioKafkaAdmin,
}
