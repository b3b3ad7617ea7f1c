"""Tells the controller which logs of this broker are offline, so that other replicas lead.

Only partitions with other replicas: of any other one this broker stays the leader, and answers with
the error of its disk.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from ottla.broker.inter_broker.own_requests import OwnRequests
from ottla.errors import PeerError, StorageError
from ottla.metadata.controller.offline_logs import OFFLINE_MAX
from ottla.metadata.values import PartitionId
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas

REPORT_INTERVAL_S = 1.0


class TooManyOfflineLogs(StorageError):
    """So many logs are offline that others should replace this broker."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} logs with other replicas are offline; at most {OFFLINE_MAX} may")


def offline_partitions(replicas: Iterable[Replica]) -> list[PartitionId]:
    """The partitions with other replicas whose logs are offline here. TooManyOfflineLogs."""
    found = [
        PartitionId(each.partition.topic_id, each.partition.index)
        for each in replicas
        if len(each.partition.replicas) > 1 and _is_offline(each)
    ]
    if len(found) > OFFLINE_MAX:
        raise TooManyOfflineLogs(len(found))
    return found


class OfflineLogReports:
    """Reports logs that go offline while the broker runs. `broker_epoch` is the current one."""

    def __init__(
        self,
        replicas: Replicas,
        own_requests: OwnRequests,
        broker_epoch: Callable[[], int],
        reported: Sequence[PartitionId],
    ) -> None:
        """`reported` are those that the registration named."""
        self._replicas = replicas
        self._own_requests = own_requests
        self._broker_epoch = broker_epoch
        self._reported = set(reported)
        self._epoch = broker_epoch()

    async def run(self) -> None:
        """Does not end. TooManyOfflineLogs."""
        while True:
            await asyncio.sleep(REPORT_INTERVAL_S)
            if self._broker_epoch() != self._epoch:
                # The controller has forgotten them with the last registration.
                self._epoch = self._broker_epoch()
                self._reported.clear()
            offline = offline_partitions(self._replicas)
            new = [each for each in offline if each not in self._reported]
            if not new:
                continue
            try:
                await self._own_requests.report_offline_logs(new)
            except PeerError:
                continue  # no controller, for example; told again
            self._reported.update(new)


def _is_offline(replica: Replica) -> bool:
    return replica.is_unusable or (replica.log is not None and replica.log.offline is not None)
