"""Verification in a cluster: the coordinator of a transactional id is this broker or another."""

from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.coordinators.txn.coordinator import TransactionShards
from ottla.coordinators.txn.verification import TransactionVerifier, Verification
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.topic_names import TRANSACTION_STATE
from ottla.protocol.topic_partition import TopicPartition


class OtherCoordinators(Protocol):
    """Asks coordinators on other brokers."""

    async def verify(
        self, broker_id: int, verification: Verification
    ) -> Mapping[TopicPartition, ErrorCode]:
        """The error code of each partition, also if the broker does not answer."""
        ...


class ClusterVerifier:
    """The `TransactionVerifier` of all transactional ids.

    `here` verifies those that this broker coordinates. Unless `is_enabled`, partitions that
    producers have to add themselves are not verified. Nobody is asked while this broker has not
    heard of a coordinator whose marker is in one of the partitions.
    """

    def __init__(
        self,
        here: TransactionVerifier,
        others: OtherCoordinators,
        shards: TransactionShards,
        node_id: int,
        image: Callable[[], Image],
        is_enabled: Callable[[], bool],
    ) -> None:
        self._here = here
        self._others = others
        self._shards = shards
        self._node_id = node_id
        self._image = image
        self._is_enabled = is_enabled

    async def verify(self, verification: Verification) -> Mapping[TopicPartition, ErrorCode]:
        try:
            index = self._shards.partition_of(verification.transactional_id)
        except PeerError as error:
            return dict.fromkeys(verification.partitions, error.code)
        image = self._image()
        leader_id = image.leader_id(TRANSACTION_STATE, index)
        leader_epoch = image.leader_epoch(TRANSACTION_STATE, index)
        is_outdated = leader_epoch is None or leader_epoch < verification.coordinator_epoch
        if leader_id is None or is_outdated:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return dict.fromkeys(verification.partitions, code)
        if leader_id == self._node_id:
            return await self._here.verify(verification)
        if not verification.adds and not self._is_enabled():
            return dict.fromkeys(verification.partitions, ErrorCode.NONE)
        return await self._others.verify(leader_id, verification)
