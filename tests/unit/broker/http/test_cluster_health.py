"""Whether a broker of a cluster is ready, and the reasons that it gives."""

from dataclasses import replace

import pytest

from ottla.broker.http.cluster_health import ClusterHealth, ObservedBroker, why_not_ready
from ottla.broker.http.health import Health
from ottla.protocol.topic_partition import TopicPartition

HEALTHY = ObservedBroker(
    is_registered=True,
    silent_ms=None,
    session_timeout_ms=18_000,
    entries_behind=0,
    replica_count=300,
    catching_up=(),
    offline=(),
)
MANY = [TopicPartition("orders", index) for index in range(12)]


@pytest.mark.parametrize(
    "broker",
    [
        HEALTHY,
        replace(HEALTHY, silent_ms=17_999),
        replace(HEALTHY, silent_ms=99_999_999, session_timeout_ms=None),
    ],
    ids=["healthy", "silent for less than a session", "sessions without an end"],
)
def test_a_broker_without_a_fault_of_its_own_is_ready(broker: ObservedBroker) -> None:
    assert why_not_ready(broker) == {}


@pytest.mark.parametrize(
    ("broker", "part", "reason"),
    [
        (replace(HEALTHY, is_registered=False), "session", "has not registered again"),
        (replace(HEALTHY, silent_ms=18_000), "session", "not answered for 18 s"),
        (replace(HEALTHY, entries_behind=7), "metadata", "7 entries"),
        (replace(HEALTHY, catching_up=MANY), "replicas", "12 of 300 are out of sync"),
        (replace(HEALTHY, offline=MANY[:1]), "logs", "1 of 300 are offline: orders-0"),
    ],
    ids=["unregistered", "silent", "behind", "catching up", "offline"],
)
def test_each_fault_is_a_reason_with_its_number(
    broker: ObservedBroker, part: str, reason: str
) -> None:
    (found,) = why_not_ready(broker).items()
    assert found[0] == part
    assert reason in found[1]


def test_only_some_partitions_are_named() -> None:
    reason = why_not_ready(replace(HEALTHY, catching_up=MANY))["replicas"]
    assert reason.endswith("orders-0, orders-1, orders-2, orders-3, orders-4 and 7 more")


def test_a_broker_is_not_ready_before_the_first_look_and_reasons_go_with_their_cause() -> None:
    health = Health()
    cluster = ClusterHealth(health.ready)
    assert health.not_ready() == ["cluster: its replicas have not been examined yet"]
    cluster.show(replace(HEALTHY, entries_behind=1, offline=MANY))
    assert [reason.split(":")[0] for reason in health.not_ready()] == ["metadata", "logs"]
    cluster.show(HEALTHY)
    assert health.not_ready() == []
