"""Authorization: `may` is called before each operation of a request.

Without an authorizer every operation is allowed, as in Kafka.
"""

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.values import AclOperation, AclResource

if TYPE_CHECKING:
    from ottla.broker.net.session import Session
    from ottla.broker.requests.services import Services

_CREATE = AclOperation.CREATE
_READ = AclOperation.READ
_WRITE = AclOperation.WRITE
_ALTER = AclOperation.ALTER
_DELETE = AclOperation.DELETE
_DESCRIBE = AclOperation.DESCRIBE
_DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS
_ALTER_CONFIGS = AclOperation.ALTER_CONFIGS
_CLUSTER_ACTION = AclOperation.CLUSTER_ACTION


class Resource(NamedTuple):
    """The resource that an operation is about, by type and name."""

    kind: AclResource
    name: str


CLUSTER = Resource(AclResource.CLUSTER, "kafka-cluster")


def topic_resource(name: str) -> Resource:
    return Resource(AclResource.TOPIC, name)


def group_resource(group_id: str) -> Resource:
    return Resource(AclResource.GROUP, group_id)


def transactional_id_resource(transactional_id: str) -> Resource:
    return Resource(AclResource.TRANSACTIONAL_ID, transactional_id)


class Authorizer(Protocol):
    """Decides whether an operation is allowed. Does no I/O, since every request calls it."""

    def allows(self, session: "Session", operation: AclOperation, resource: Resource) -> bool: ...

    def visibility(self, session: "Session") -> Hashable:
        """Equal for sessions that may describe the same resources, so that they share a cache."""
        ...


class Unauthorized(PeerError):
    """The client is not authorized for the operation on a resource of this type."""

    def __init__(self, kind: AclResource) -> None:
        super().__init__(_REFUSALS[kind], f"{kind.capitalize()} authorization failed.")


_REFUSALS = {
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResource.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

_OF_GROUP_MEMBERS = {AclResource.GROUP: _READ}
_OF_BROKERS = {AclResource.CLUSTER: _CLUSTER_ACTION}
_OF_CONFIG_READERS = dict.fromkeys(
    (AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER), _DESCRIBE_CONFIGS
)
_OF_CONFIG_WRITERS = dict.fromkeys(_OF_CONFIG_READERS, _ALTER_CONFIGS)

# The operation that each API needs, by the type of resource.
OPERATIONS: Mapping[str, Mapping[AclResource, AclOperation]] = MappingProxyType(
    {
        "Produce": {AclResource.TRANSACTIONAL_ID: _WRITE, AclResource.TOPIC: _WRITE},
        # Followers need CLUSTER_ACTION.
        "Fetch": {AclResource.TOPIC: _READ, AclResource.CLUSTER: _CLUSTER_ACTION},
        "ListOffsets": {AclResource.TOPIC: _DESCRIBE},
        "Metadata": {AclResource.TOPIC: _DESCRIBE},
        "OffsetCommit": {AclResource.GROUP: _READ, AclResource.TOPIC: _READ},
        "OffsetFetch": {AclResource.GROUP: _DESCRIBE, AclResource.TOPIC: _DESCRIBE},
        "FindCoordinator": {
            AclResource.GROUP: _DESCRIBE,
            AclResource.TRANSACTIONAL_ID: _DESCRIBE,
        },
        "JoinGroup": _OF_GROUP_MEMBERS,
        "Heartbeat": _OF_GROUP_MEMBERS,
        "LeaveGroup": _OF_GROUP_MEMBERS,
        "SyncGroup": _OF_GROUP_MEMBERS,
        "DescribeGroups": {AclResource.GROUP: _DESCRIBE},
        # DESCRIBE on the cluster lists all groups.
        "ListGroups": {AclResource.CLUSTER: _DESCRIBE, AclResource.GROUP: _DESCRIBE},
        "ApiVersions": {},
        # CREATE on the cluster allows any topic.
        "CreateTopics": {AclResource.CLUSTER: _CREATE, AclResource.TOPIC: _CREATE},
        "DeleteTopics": {AclResource.TOPIC: _DELETE},
        "DeleteRecords": {AclResource.TOPIC: _DELETE},
        "InitProducerId": {
            AclResource.CLUSTER: AclOperation.IDEMPOTENT_WRITE,
            AclResource.TRANSACTIONAL_ID: _WRITE,
        },
        # Brokers, which send it from v4 on, need CLUSTER_ACTION.
        "AddPartitionsToTxn": {
            AclResource.TRANSACTIONAL_ID: _WRITE,
            AclResource.TOPIC: _WRITE,
            AclResource.CLUSTER: _CLUSTER_ACTION,
        },
        "AddOffsetsToTxn": {AclResource.TRANSACTIONAL_ID: _WRITE, AclResource.GROUP: _READ},
        "EndTxn": {AclResource.TRANSACTIONAL_ID: _WRITE},
        "WriteTxnMarkers": {AclResource.CLUSTER: _CLUSTER_ACTION},
        "TxnOffsetCommit": {
            AclResource.TRANSACTIONAL_ID: _WRITE,
            AclResource.GROUP: _READ,
            AclResource.TOPIC: _READ,
        },
        "DescribeTransactions": {
            AclResource.TRANSACTIONAL_ID: _DESCRIBE,
            AclResource.TOPIC: _DESCRIBE,
        },
        "ListTransactions": {AclResource.TRANSACTIONAL_ID: _DESCRIBE},
        "UpdateFeatures": {AclResource.CLUSTER: _ALTER},
        "DescribeClientQuotas": {AclResource.CLUSTER: _DESCRIBE_CONFIGS},
        "AlterClientQuotas": {AclResource.CLUSTER: _ALTER_CONFIGS},
        "OffsetForLeaderEpoch": {AclResource.TOPIC: _DESCRIBE},
        "DescribeConfigs": _OF_CONFIG_READERS,
        "AlterConfigs": _OF_CONFIG_WRITERS,
        "IncrementalAlterConfigs": _OF_CONFIG_WRITERS,
        "AlterReplicaLogDirs": {AclResource.CLUSTER: _ALTER},
        "DescribeLogDirs": {AclResource.CLUSTER: _DESCRIBE},
        "CreatePartitions": {AclResource.TOPIC: _ALTER},
        "DeleteGroups": {AclResource.GROUP: _DELETE},
        "ElectLeaders": {AclResource.CLUSTER: _ALTER},
        "AlterPartitionReassignments": {AclResource.CLUSTER: _ALTER},
        "ListPartitionReassignments": {AclResource.CLUSTER: _DESCRIBE},
        "OffsetDelete": {AclResource.GROUP: _DELETE, AclResource.TOPIC: _READ},
        "DescribeQuorum": {AclResource.CLUSTER: _DESCRIBE},
        # Without DESCRIBE the response lists the brokers, and no authorized operations.
        "DescribeCluster": {AclResource.CLUSTER: _DESCRIBE},
        "DescribeProducers": {AclResource.TOPIC: _READ},
        "ConsumerGroupHeartbeat": {AclResource.GROUP: _READ, AclResource.TOPIC: _DESCRIBE},
        "ConsumerGroupDescribe": {AclResource.GROUP: _DESCRIBE, AclResource.TOPIC: _DESCRIBE},
        "ListConfigResources": {AclResource.CLUSTER: _DESCRIBE_CONFIGS},
        "DescribeTopicPartitions": {AclResource.TOPIC: _DESCRIBE},
        "AlterPartition": _OF_BROKERS,
        "Envelope": _OF_BROKERS,
        "AllocateProducerIds": _OF_BROKERS,
        "ReportOfflineLogs": _OF_BROKERS,
        "DescribeLogEnds": _OF_BROKERS,
    }
)


def may(
    services: "Services", session: "Session", operation: AclOperation, resource: Resource
) -> bool:
    """Whether a client may do this to a resource. All authorization checks end here."""
    authorizer = services.authorizer
    return authorizer is None or authorizer.allows(session, operation, resource)


def visibility(services: "Services", session: "Session") -> Hashable:
    """The part of a cache key that stands for the client's rights; None without an authorizer."""
    return None if services.authorizer is None else services.authorizer.visibility(session)


# Kafka's code of each operation, which is its bit in `authorized_operations`.
_CODES = {
    _READ: 3,
    _WRITE: 4,
    _CREATE: 5,
    _DELETE: 6,
    _ALTER: 7,
    _DESCRIBE: 8,
    AclOperation.CLUSTER_ACTION: 9,
    _DESCRIBE_CONFIGS: 10,
    _ALTER_CONFIGS: 11,
    AclOperation.IDEMPOTENT_WRITE: 12,
}
# The operations that exist for each type of resource.
_SUPPORTED = {
    AclResource.TOPIC: (
        *(_READ, _WRITE, _CREATE, _DELETE),
        *(_ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS),
    ),
    AclResource.GROUP: (_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS),
    AclResource.CLUSTER: (
        *(_CREATE, _ALTER, _DESCRIBE, AclOperation.CLUSTER_ACTION),
        *(_DESCRIBE_CONFIGS, _ALTER_CONFIGS, AclOperation.IDEMPOTENT_WRITE),
    ),
}
_EVERYTHING = {
    kind: sum(1 << _CODES[each] for each in operations) for kind, operations in _SUPPORTED.items()
}


def authorized_operations(services: "Services", session: "Session", resource: Resource) -> int:
    """The operations that a client is authorized for, as the bit field of Kafka's responses."""
    if services.authorizer is None:
        return _EVERYTHING[resource.kind]
    return sum(
        1 << _CODES[operation]
        for operation in _SUPPORTED[resource.kind]
        if may(services, session, operation, resource)
    )
