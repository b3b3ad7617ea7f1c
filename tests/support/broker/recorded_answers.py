"""Recorded responses of Apache Kafka, and our broker's responses to the same requests."""

import base64
import functools
import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.create_topics import Topic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic
from tests.support.protocol.wire_vectors import pairs, to_json

# The recorded broker: its cluster id, its address, its settings.
CLUSTER_ID = "VecTorsVecTorsVecTorsA"
SETTINGS = {
    "advertised_listeners": "PLAINTEXT://127.0.0.1:39192",
    "num_partitions": "4",
}
METADATA, DELETE_TOPICS, DESCRIBE_TOPIC_PARTITIONS = 3, 20, 75

Pair = dict[str, Any]


def recorded_machine() -> Machine:
    """A machine whose broker gets the recorded cluster id."""
    machine = Machine()
    machine.entropy.ids.append(Uuid.parse(CLUSTER_ID))
    return machine


def recordings(key: int) -> Iterator[Pair]:
    """The requests and responses of the broker without ACLs, in the order of versions."""
    for pair in sorted(pairs(), key=lambda pair: pair["version"]):
        is_denied = {29, 31}.intersection(pair["errors"])
        is_the_other = "VecTorsVecTorsVecTorsB" in json.dumps(pair["responseJson"])
        if pair["key"] == key and not is_denied and not is_the_other:
            # Tests leave out what cannot be compared; the recordings are everybody's.
            yield deepcopy(pair)


async def create_as_recorded(client: Client, machine: Machine, topics: Iterable[Topic]) -> None:
    """Creates topics with their recorded ids, as far as these are known."""
    for topic in topics:
        if topic.name in _topic_ids():
            machine.entropy.ids.append(_topic_ids()[topic.name])
        await create(client, topic)


def described_topics(pair: Pair) -> list[Topic]:
    """The topics of a response, with their number of partitions."""
    return [
        new_topic(topic["name"], len(topic["partitions"]))
        for topic in pair["responseJson"]["topics"]
        if topic["errorCode"] == 0
    ]


@functools.cache
def _topic_ids() -> dict[str, Uuid]:
    """The topic ids in the recorded responses."""
    found: dict[str, Uuid] = {}
    for key in (METADATA, DELETE_TOPICS, DESCRIBE_TOPIC_PARTITIONS):
        for pair in recordings(key):
            answer = pair["responseJson"]
            for topic in answer.get("topics", answer.get("responses", ())):
                topic_id = Uuid.parse(topic.get("topicId", str(ZERO_UUID)))
                if topic_id != ZERO_UUID and topic["errorCode"] == 0:
                    found[topic["name"]] = topic_id
    return found


async def ours(client: Client, pair: Pair) -> Any:
    """Our response to the recorded request bytes, in the form of the recordings."""
    request = base64.b64decode(pair["request"])
    answer = await client.exchange(len(request).to_bytes(4, "big") + request)
    api, version = APIS[pair["key"]], pair["responseVersion"]
    return to_json(decode_response(answer, api, version), version)


def comparable(document: Any) -> Any:
    """The same without irrelevant parts: lists as sets, messages only as present or absent."""
    if isinstance(document, dict):
        return {name: _comparable_field(name, value) for name, value in document.items()}
    if isinstance(document, list):
        return sorted(map(comparable, document), key=json.dumps)
    return document


def _comparable_field(name: str, value: Any) -> Any:
    is_sentence = name in ("errorMessage", "documentation")
    return "a sentence" if is_sentence and value else comparable(value)
