"""A transaction is verified by the broker that coordinates its id."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from ottla.coordinators.txn.cluster_verifier import ClusterVerifier
from ottla.coordinators.txn.coordinator import TransactionShards
from ottla.coordinators.txn.verification import Verification
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.topic_names import TRANSACTION_STATE
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run

ME, OTHER = 1, 2
T0 = TopicPartition("t", 0)
NONE, NOT_AVAILABLE = ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE
HERE, ELSEWHERE = ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.PRODUCER_FENCED


class Stage:
    """Each verifier has a code of its own."""

    def __init__(self, leader_id: int | None) -> None:
        self.leader = leader_id
        self.epoch: int | None = 5
        self.has_topic = True
        self.is_enabled = True
        self.asked: list[int] = []

    def partition_of(self, key: str) -> int:
        if not self.has_topic:
            raise PeerError(NOT_AVAILABLE, "no topic")
        return len(key)

    def leader_id(self, topic: str, index: int) -> int | None:
        assert (topic, index) == (TRANSACTION_STATE, 2)
        return self.leader

    def leader_epoch(self, topic: str, index: int) -> int | None:
        assert (topic, index) == (TRANSACTION_STATE, 2)
        return self.epoch

    async def verify(self, *asked: Any) -> Mapping[TopicPartition, ErrorCode]:
        """Of this broker with one argument, of another with two."""
        if len(asked) == 2:
            self.asked.append(asked[0])
        return dict.fromkeys(asked[-1].partitions, HERE if len(asked) == 1 else ELSEWHERE)

    def code(self, *, adds: bool, coordinator_epoch: int = -1) -> ErrorCode:
        here = cast(Any, self)
        verifier = ClusterVerifier(
            here,
            here,
            cast("TransactionShards", here),
            ME,
            lambda: cast("Image", here),
            lambda: self.is_enabled,
        )
        question = Verification("id", 7, 3, (T0,), adds, coordinator_epoch)
        codes = run(cast(Any, verifier.verify(question)))
        assert list(codes) == [T0]
        return codes[T0]


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize(
    ("leader_id", "code"), [(ME, HERE), (OTHER, ELSEWHERE), (None, NOT_AVAILABLE)]
)
def test_the_leader_of_the_ids_partition_is_asked(
    leader_id: int | None, code: ErrorCode, adds: bool
) -> None:
    stage = Stage(leader_id)
    assert stage.code(adds=adds) is code
    assert stage.asked == ([OTHER] if leader_id == OTHER else [])


@pytest.mark.parametrize("leader_id", [ME, OTHER])
def test_a_coordinator_that_another_has_followed_is_not_asked(leader_id: int) -> None:
    stage = Stage(leader_id)
    answer = HERE if leader_id == ME else ELSEWHERE
    assert stage.code(adds=False, coordinator_epoch=5) is answer
    stage.asked.clear()
    assert stage.code(adds=False, coordinator_epoch=6) is NOT_AVAILABLE
    stage.epoch = None
    assert stage.code(adds=False) is NOT_AVAILABLE
    assert stage.asked == []


def test_without_the_topic_there_is_no_coordinator() -> None:
    stage = Stage(OTHER)
    stage.has_topic = False
    assert stage.code(adds=False) is NOT_AVAILABLE


def test_partitions_are_added_even_if_none_are_verified() -> None:
    stage = Stage(OTHER)
    stage.is_enabled = False
    assert stage.code(adds=False) is NONE
    assert stage.asked == []
    assert stage.code(adds=True) is ELSEWHERE
