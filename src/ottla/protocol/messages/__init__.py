"""One module per API, with all its versions; `ls` is the table of APIs.

A module is imported when its API is first used: starting a broker needs none of them.
"""

import functools
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.codec import schema_of
from ottla.protocol.refusal import Refusal, refuse_at_top_level


@dataclass(frozen=True)
class Api:
    """One row of the table: the facts about an API that need no import of its module."""

    key: int
    name: str
    versions: tuple[int, int]
    flexible_from: int | None = 0
    # Advertised instead of the first version, for clients that misread the lowest version.
    advertised_min: int | None = None

    def has(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    @property
    def advertised(self) -> tuple[int, int]:
        """The range of versions that ApiVersions advertises."""
        first, last = self.versions
        return (first if self.advertised_min is None else self.advertised_min), last

    @functools.cached_property
    def module(self) -> str:
        """The module that declares its messages."""
        return f"{__name__}.{re.sub('(?<=[a-z])(?=[A-Z])', '_', self.name).lower()}"

    @functools.cached_property
    def request(self) -> type[Any]:
        """The class of its requests."""
        declared: type[Any] = getattr(importlib.import_module(self.module), f"{self.name}Request")
        schema = schema_of(declared)
        if (schema.key, schema.versions, schema.flexible_from) != (
            self.key,
            self.versions,
            self.flexible_from,
        ):
            raise TypeError(f"{self.module} and the table of APIs differ in versions")
        return declared

    @functools.cached_property
    def response(self) -> type[Any]:
        """The class of its responses."""
        declared: type[Any] = getattr(importlib.import_module(self.module), f"{self.name}Response")
        return declared

    def refuse(
        self, request: Any, version: int, code: ErrorCode, message: str | None = None
    ) -> Any:
        """The response that refuses all of `request` with this error."""
        refusal = Refusal(version, code, message)
        refuse: Callable[[Any, Refusal], Any] | None = getattr(
            importlib.import_module(self.module), "refuse", None
        )
        if refuse is None:
            return refuse_at_top_level(self.response, refusal)
        return refuse(request, refusal)


_TABLE = (
    # librdkafka 2.0 compresses nothing if the lowest advertised version is 3 or more.
    Api(0, "Produce", (3, 13), flexible_from=9, advertised_min=0),
    Api(1, "Fetch", (4, 18), flexible_from=12),
    Api(2, "ListOffsets", (1, 11), flexible_from=6),
    Api(3, "Metadata", (0, 13), flexible_from=9),
    Api(8, "OffsetCommit", (2, 10), flexible_from=8),
    Api(9, "OffsetFetch", (1, 10), flexible_from=6),
    Api(10, "FindCoordinator", (0, 6), flexible_from=3),
    Api(11, "JoinGroup", (0, 9), flexible_from=6),
    Api(12, "Heartbeat", (0, 4), flexible_from=4),
    Api(13, "LeaveGroup", (0, 5), flexible_from=4),
    Api(14, "SyncGroup", (0, 5), flexible_from=4),
    Api(15, "DescribeGroups", (0, 6), flexible_from=5),
    Api(16, "ListGroups", (0, 5), flexible_from=3),
    Api(17, "SaslHandshake", (0, 1), flexible_from=None),
    Api(18, "ApiVersions", (0, 4), flexible_from=3),
    Api(19, "CreateTopics", (2, 7), flexible_from=5),
    Api(20, "DeleteTopics", (1, 6), flexible_from=4),
    Api(21, "DeleteRecords", (0, 2), flexible_from=2),
    Api(22, "InitProducerId", (0, 5), flexible_from=2),
    Api(23, "OffsetForLeaderEpoch", (2, 4), flexible_from=4),
    Api(24, "AddPartitionsToTxn", (0, 5), flexible_from=3),
    Api(25, "AddOffsetsToTxn", (0, 4), flexible_from=3),
    Api(26, "EndTxn", (0, 5), flexible_from=3),
    Api(27, "WriteTxnMarkers", (1, 2), flexible_from=1),
    Api(28, "TxnOffsetCommit", (0, 5), flexible_from=3),
    Api(29, "DescribeAcls", (1, 3), flexible_from=2),
    Api(30, "CreateAcls", (1, 3), flexible_from=2),
    Api(31, "DeleteAcls", (1, 3), flexible_from=2),
    Api(32, "DescribeConfigs", (1, 4), flexible_from=4),
    Api(33, "AlterConfigs", (0, 2), flexible_from=2),
    Api(34, "AlterReplicaLogDirs", (1, 2), flexible_from=2),
    Api(35, "DescribeLogDirs", (1, 5), flexible_from=2),
    Api(36, "SaslAuthenticate", (0, 2), flexible_from=2),
    Api(37, "CreatePartitions", (0, 3), flexible_from=2),
    Api(42, "DeleteGroups", (0, 2), flexible_from=2),
    Api(43, "ElectLeaders", (0, 2), flexible_from=2),
    Api(44, "IncrementalAlterConfigs", (0, 1), flexible_from=1),
    Api(45, "AlterPartitionReassignments", (0, 1)),
    Api(46, "ListPartitionReassignments", (0, 0)),
    Api(47, "OffsetDelete", (0, 0), flexible_from=None),
    Api(48, "DescribeClientQuotas", (0, 1), flexible_from=1),
    Api(49, "AlterClientQuotas", (0, 1), flexible_from=1),
    Api(50, "DescribeUserScramCredentials", (0, 0)),
    Api(51, "AlterUserScramCredentials", (0, 0)),
    Api(55, "DescribeQuorum", (0, 2)),
    Api(56, "AlterPartition", (2, 3)),
    Api(57, "UpdateFeatures", (0, 2)),
    Api(58, "Envelope", (0, 0)),
    Api(60, "DescribeCluster", (0, 2)),
    Api(61, "DescribeProducers", (0, 0)),
    Api(65, "DescribeTransactions", (0, 0)),
    Api(66, "ListTransactions", (0, 2)),
    Api(67, "AllocateProducerIds", (0, 0)),
    Api(68, "ConsumerGroupHeartbeat", (0, 1)),
    Api(69, "ConsumerGroupDescribe", (0, 1)),
    Api(74, "ListConfigResources", (0, 1)),
    Api(75, "DescribeTopicPartitions", (0, 0)),
    # Ours, between brokers. Kafka's keys stay far below.
    Api(20_000, "ReportOfflineLogs", (0, 0)),
    Api(20_001, "DescribeLogEnds", (0, 0)),
)

APIS: dict[int, Api] = {api.key: api for api in _TABLE}
