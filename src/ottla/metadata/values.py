"""The types of the fields of metadata records."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

from ottla.metadata.json_codec import Length, Range
from ottla.protocol.primitives import Uuid
from ottla.settings.listeners import SecurityProtocol

# No number in the metadata is negative: None is used where Kafka's protocol has -1.
Int16 = Annotated[int, Range(0, 2**15 - 1)]
Int32 = Annotated[int, Range(0, 2**31 - 1)]
Int64 = Annotated[int, Range(0, 2**63 - 1)]
Port = Annotated[int, Range(1, 2**16 - 1)]
Count = Annotated[int, Range(1, 2**31 - 1)]

# The longest strings of Kafka's protocol.
Text = Annotated[str, Length(0, 2**15 - 1)]
Name = Annotated[str, Length(1, 2**15 - 1)]


class Incarnation(NamedTuple):
    """A broker from one registration to the end of its session."""

    broker_id: Int32
    broker_epoch: Int64


class PartitionId(NamedTuple):
    """A partition, by the id of its topic."""

    topic_id: Uuid
    partition: Int32


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener of a broker: the address under which others reach it."""

    listener: Name
    host: Name
    port: Port
    security_protocol: SecurityProtocol


class BrokerState(StrEnum):
    """The state of an incarnation, which only advances, in this order.

    A broker that is starting is live, and its partitions do not all name its new epoch yet.
    """

    STARTING = "starting"
    UP = "up"
    DRAINING = "draining"
    GONE = "gone"


class ResourceKind(StrEnum):
    """Resources with configs. The broker named "" has the cluster-wide defaults."""

    BROKER = "broker"
    GROUP = "group"
    TOPIC = "topic"


class AclResource(StrEnum):
    CLUSTER = "cluster"
    DELEGATION_TOKEN = "delegation_token"  # noqa: S105 - a kind of resource
    GROUP = "group"
    TOPIC = "topic"
    TRANSACTIONAL_ID = "transactional_id"
    USER = "user"


class AclPattern(StrEnum):
    LITERAL = "literal"
    PREFIXED = "prefixed"


class AclOperation(StrEnum):
    ALL = "all"
    ALTER = "alter"
    ALTER_CONFIGS = "alter_configs"
    CLUSTER_ACTION = "cluster_action"
    CREATE = "create"
    CREATE_TOKENS = "create_tokens"
    DELETE = "delete"
    DESCRIBE = "describe"
    DESCRIBE_CONFIGS = "describe_configs"
    DESCRIBE_TOKENS = "describe_tokens"
    IDEMPOTENT_WRITE = "idempotent_write"
    READ = "read"
    TWO_PHASE_COMMIT = "two_phase_commit"
    WRITE = "write"


class AclPermission(StrEnum):
    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """An ACL: an operation on a resource, allowed or denied. `*` is every name and every host."""

    resource: AclResource
    resource_name: Name
    pattern: AclPattern
    principal: Name
    host: Name
    operation: AclOperation
    permission: AclPermission


class ScramMechanism(StrEnum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The keys that verify a user's password without containing it (RFC 5802)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: Count

    def __repr__(self) -> str:
        """Without the keys, which must not be logged."""
        return f"ScramCredential(iterations={self.iterations})"


class QuotaEntityKind(StrEnum):
    CLIENT_ID = "client-id"
    IP = "ip"
    USER = "user"


class QuotaEntity(NamedTuple):
    """One part of a quota's entity. Without a name it is the default."""

    kind: QuotaEntityKind
    name: Name | None
