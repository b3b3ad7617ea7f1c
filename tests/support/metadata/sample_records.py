"""Sample metadata records and values."""

from typing import Any

from ottla.metadata.records import (
    Acl,
    Broker,
    Config,
    ControllerStarted,
    DeletedName,
    EpochFloor,
    Feature,
    Partition,
    ProducerIds,
    Quota,
    Record,
    Topic,
    TopicDeleted,
    User,
)
from ottla.metadata.store import Registration, SupportedFeature
from ottla.metadata.values import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    BrokerState,
    Endpoint,
    Incarnation,
    QuotaEntity,
    QuotaEntityKind,
    ResourceKind,
    ScramCredential,
    ScramMechanism,
    SecurityProtocol,
)
from ottla.protocol.primitives import Uuid

ENDPOINT = Endpoint("EXTERNAL", "one.example", 9092, SecurityProtocol.SASL_SSL)
BINDING = AclBinding(
    AclResource.TOPIC,
    "orders",
    AclPattern.PREFIXED,
    "User:ännchen",
    "*",
    AclOperation.READ,
    AclPermission.DENY,
)
CREDENTIAL = ScramCredential(b"salt", b"stored", b"\xff\x00server", 4096)
ENTITY = (
    QuotaEntity(QuotaEntityKind.CLIENT_ID, None),
    QuotaEntity(QuotaEntityKind.USER, "alice"),
)


def topic_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def broker(broker_id: int = 1, epoch: int = 5, **changes: Any) -> Broker:
    fields: dict[str, Any] = {
        "inherits": None,
        "endpoints": (ENDPOINT,),
        "rack": "left",
        "host": "one",
        "state": BrokerState.UP,
    }
    return Broker(broker_id=broker_id, epoch=epoch, **{**fields, **changes})


def partition(topic: int = 1, index: int = 0, **changes: Any) -> Partition:
    """A partition with three replicas: the first two are in sync, the first one is the leader."""
    fields: dict[str, Any] = {
        "replicas": (1, 2, 3),
        "leader": Incarnation(1, 5),
        "leader_epoch": 0,
        "isr": (Incarnation(1, 5), Incarnation(2, 6)),
        "min_isr": 2,
        "partition_epoch": 0,
    }
    return Partition(topic_id=topic_id(topic), index=index, **{**fields, **changes})


def registration(
    broker_id: int = 1, inherits: tuple[str, ...] = (), incarnation_id: str = "first"
) -> Registration:
    return Registration(
        broker_id=broker_id,
        incarnation_id=incarnation_id,
        endpoints=(ENDPOINT,),
        rack=None,
        host="one",
        features=(SupportedFeature("metadata", 1, 3),),
        inherits=inherits,
    )


ONE_OF_EACH: tuple[Record, ...] = (
    ControllerStarted(3, broker_id=1),
    broker(inherits=4),
    Topic("orders", topic_id(1)),
    partition(adding=(3,), removing=(2,), elr=(), unclean=(3,)),
    Config(ResourceKind.TOPIC, "orders", "retention.ms", "1000"),
    Acl(BINDING, in_force=True),
    User("alice", ScramMechanism.SHA_512, CREDENTIAL),
    Quota(ENTITY, "producer_byte_rate", 1024.5),
    ProducerIds(2000),
    Feature("metadata", 2),
    EpochFloor(7),
    DeletedName("payments", 9),
    TopicDeleted(topic_id(1), "orders"),
)
"""In an order in which an image can apply them."""
