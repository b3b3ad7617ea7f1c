"""Transactions: our broker and Apache Kafka give the same responses, at every level of
transaction.version.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from uuid import uuid4

import pytest

from ottla.errors import ErrorCode
from ottla.testing import Broker
from tests.support.compat.kafka_peer import kafka_peer
from tests.support.group_scenarios.peer import Answers
from tests.support.transaction_scenarios import (
    batches,
    ends,
    exhausted_epochs,
    features,
    listings,
    markers,
    offsets,
    partitions,
    producer_ids,
    timeouts,
)
from tests.support.transaction_scenarios.levels import set_level
from tests.support.transaction_scenarios.peer import TransactionPeer

SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # Longer than a scene takes, on whatever machine.
    "group.consumer.session.timeout.ms": "120000",
    "group.consumer.max.session.timeout.ms": "120000",
    # Nobody looks for groups that have neither members nor offsets while a scene is about one.
    "offsets.retention.check.interval.ms": "86400000",
}
KAFKA_SETTINGS = SETTINGS | {"group.consumer.assignor.offload.enable": "false"}
LEVELS = (2, 1)
TIMEOUTS_MS = (100, 500, 2_500, 12_500, 60_000)
# Scenes in which our answers differ, and the reason.
DIFFERENT = {
    "a_transactional_batch_has_no_producer": "Kafka stores it: no marker could ever end it",
    "after_the_end_of_a_sequence_that_was": "Kafka verifies before it looks for duplicates",
    "a_transactional_id_has_no_name": "Kafka refuses it as invalid, we as unknown",
}
# Kafka always refuses the InitProducerId that fences an open transaction, once.
MAY_HAVE_TO_WAIT = "InitProducerIdRequest"
Scene = Callable[[TransactionPeer], None]


class Brokers(NamedTuple):
    ours: str
    kafka: str


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    with kafka_peer(directory, KAFKA_SETTINGS) as kafka, Broker(SETTINGS) as ours:
        yield Brokers(ours.bootstrap_servers, kafka)


@pytest.fixture(scope="module", params=LEVELS, ids="level{}".format)
def levelled(request: pytest.FixtureRequest, brokers: Brokers) -> Brokers:
    """Both at this level of transaction.version."""
    for servers in brokers:
        set_level(servers, request.param)
    return brokers


@pytest.fixture(scope="module")
def newest(brokers: Brokers) -> Brokers:
    for servers in brokers:
        set_level(servers, max(LEVELS))
    return brokers


def played(scene: Scene, servers: str, name: str, short_ms: int) -> TransactionPeer:
    with TransactionPeer(servers, name, short_ms=short_ms) as peer:
        scene(peer)
    return peer


def played_on_both(scene: Scene, brokers: Brokers) -> tuple[TransactionPeer, TransactionPeer]:
    """At the same time, and again if the machine is too slow for a timeout of the scene."""
    for short_ms in TIMEOUTS_MS:
        name = f"{scene.__name__}-{uuid4().hex[:8]}"
        try:
            with ThreadPoolExecutor() as other:
                coming = other.submit(played, scene, brokers.kafka, name, short_ms)
                return played(scene, brokers.ours, name, short_ms), coming.result()
        except timeouts.TooSlow:
            continue
    pytest.fail(f"{scene.__name__} takes longer than {TIMEOUTS_MS[-1]} ms")


def assert_alike(scene: Scene, brokers: Brokers) -> None:
    ours, kafka = played_on_both(scene, brokers)
    expected: Answers = kafka.answers
    assert len(expected) > 1
    if scene.__name__ in DIFFERENT:
        assert ours.answers != expected, "it does not differ any more"
        return
    assert ours.answers == expected
    assert waited_for_markers(ours) <= {MAY_HAVE_TO_WAIT}


def waited_for_markers(peer: TransactionPeer) -> set[str]:
    """The requests that got CONCURRENT_TRANSACTIONS, or what Produce makes of it."""
    codes = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS)
    return {request for request, code in peer.waited_out if code in codes}


def named(*subjects: ModuleType) -> list[object]:
    return [
        pytest.param(scene, id=f"{subject.__name__.rpartition('.')[2]}-{scene.__name__}")
        for subject in subjects
        for scene in subject.SCENES
    ]


@pytest.mark.parametrize(
    "scene",
    named(producer_ids, partitions, ends, offsets, batches, markers, listings, timeouts),
)
def test_answers_are_kafkas(scene: Scene, levelled: Brokers) -> None:
    assert_alike(scene, levelled)


@pytest.mark.parametrize("scene", named(features, exhausted_epochs))
def test_answers_of_the_newest_level_are_kafkas(scene: Scene, newest: Brokers) -> None:
    assert_alike(scene, newest)
