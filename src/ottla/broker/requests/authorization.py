"""What a client may do: `may` is asked before everything that a request does.

Without an authorizer everything is allowed, as in Kafka.
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


class Resource(NamedTuple):
    """What an operation is done to."""

    kind: AclResource
    name: str


CLUSTER = Resource(AclResource.CLUSTER, "kafka-cluster")


def topic_resource(name: str) -> Resource:
    return Resource(AclResource.TOPIC, name)


def group_resource(group_id: str) -> Resource:
    return Resource(AclResource.GROUP, group_id)


class Authorizer(Protocol):
    """Decides. No I/O: it is asked for every request."""

    def allows(self, session: "Session", operation: AclOperation, resource: Resource) -> bool: ...

    def visibility(self, session: "Session") -> Hashable:
        """Equal for sessions that may describe the same resources: they share cached answers."""
        ...


class Unauthorized(PeerError):
    """The client may not do this to the resource."""

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
_OF_CONFIG_READERS = dict.fromkeys(
    (AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER), _DESCRIBE_CONFIGS
)
_OF_CONFIG_WRITERS = dict.fromkeys(_OF_CONFIG_READERS, _ALTER_CONFIGS)

# By the name of an API, the operation that it needs on each type of resource that it is about.
OPERATIONS: Mapping[str, Mapping[AclResource, AclOperation]] = MappingProxyType(
    {
        "Produce": {AclResource.TOPIC: _WRITE},
        "Fetch": {AclResource.TOPIC: _READ},
        "ListOffsets": {AclResource.TOPIC: _DESCRIBE},
        "Metadata": {AclResource.TOPIC: _DESCRIBE},
        "OffsetCommit": {AclResource.GROUP: _READ, AclResource.TOPIC: _READ},
        "OffsetFetch": {AclResource.GROUP: _DESCRIBE, AclResource.TOPIC: _DESCRIBE},
        "FindCoordinator": {AclResource.GROUP: _DESCRIBE},
        "JoinGroup": _OF_GROUP_MEMBERS,
        "Heartbeat": _OF_GROUP_MEMBERS,
        "LeaveGroup": _OF_GROUP_MEMBERS,
        "SyncGroup": _OF_GROUP_MEMBERS,
        "DescribeGroups": {AclResource.GROUP: _DESCRIBE},
        # Who may describe the cluster sees all groups.
        "ListGroups": {AclResource.CLUSTER: _DESCRIBE, AclResource.GROUP: _DESCRIBE},
        "ApiVersions": {},
        # Who may create in the cluster may create any topic.
        "CreateTopics": {AclResource.CLUSTER: _CREATE, AclResource.TOPIC: _CREATE},
        "DeleteTopics": {AclResource.TOPIC: _DELETE},
        "DeleteRecords": {AclResource.TOPIC: _DELETE},
        "InitProducerId": {AclResource.CLUSTER: AclOperation.IDEMPOTENT_WRITE},
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
        # Whoever may not is told the brokers, and that it may do nothing.
        "DescribeCluster": {AclResource.CLUSTER: _DESCRIBE},
        "DescribeProducers": {AclResource.TOPIC: _READ},
        "ConsumerGroupHeartbeat": {AclResource.GROUP: _READ, AclResource.TOPIC: _DESCRIBE},
        "ConsumerGroupDescribe": {AclResource.GROUP: _DESCRIBE, AclResource.TOPIC: _DESCRIBE},
        "ListConfigResources": {AclResource.CLUSTER: _DESCRIBE_CONFIGS},
        "DescribeTopicPartitions": {AclResource.TOPIC: _DESCRIBE},
    }
)


def may(
    services: "Services", session: "Session", operation: AclOperation, resource: Resource
) -> bool:
    """Whether a client may do this to a resource: the one place that may refuse it."""
    authorizer = services.authorizer
    return authorizer is None or authorizer.allows(session, operation, resource)


def visibility(services: "Services", session: "Session") -> Hashable:
    """What a cached answer depends on besides its question: None if everybody sees everything."""
    return None if services.authorizer is None else services.authorizer.visibility(session)


# Of each type of resource, the operations that there are. A bit's number is Kafka's code.
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
    """All that a client may do to a resource, as the bits that some answers carry."""
    if services.authorizer is None:
        return _EVERYTHING[resource.kind]
    return sum(
        1 << _CODES[operation]
        for operation in _SUPPORTED[resource.kind]
        if may(services, session, operation, resource)
    )
