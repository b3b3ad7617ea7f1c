"""A cached Metadata response is equal to a new one."""

from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.handlers import metadata
from ottla.broker.requests.authorization import Resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.response_cache import ResponseCache
from ottla.metadata.image import Image
from ottla.metadata.records import (
    Broker,
    ControllerStarted,
    EpochFloor,
    Partition,
    Record,
    Topic,
    TopicDeleted,
)
from ottla.metadata.store import Entry
from ottla.metadata.values import AclOperation, BrokerState, Endpoint, Incarnation
from ottla.protocol.codec import encode_bytes
from ottla.protocol.exchange import Encoded
from ottla.protocol.messages import APIS
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.settings.listeners import SecurityProtocol

NAMES = ("a", "b", "__consumer_offsets")
LISTENERS = ("IN", "OUT")
FLOOR = 1
METADATA = 3


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode()[:16].ljust(16, b"\1"))


class Blind:
    """Lets those who come in by one listener see only one topic."""

    def __init__(self, listener: str, seen: str) -> None:
        self.listener = listener
        self.seen = seen

    def allows(self, session: Any, operation: AclOperation, resource: Resource) -> bool:
        return session.listener != self.listener or resource.name == self.seen

    def visibility(self, session: Any) -> Hashable:
        return self.seen if session.listener == self.listener else None


class Cluster:
    """Two brokers and what becomes of them and their topics, entry by entry."""

    def __init__(self, bytes_max: int) -> None:
        self.image = Image()
        self.answers = ResponseCache(bytes_max)
        self.advertised: tuple[Endpoint, ...] | None = None
        self.authorizer: Blind | None = None
        self.commit(EpochFloor(FLOOR), self.broker(1, 1), self.broker(2, 1))

    def commit(self, *records: Record) -> None:
        self.image.replay(Entry(self.image.offset + 1, records))

    def broker(self, broker_id: int, epoch: int, state: BrokerState = BrokerState.UP) -> Broker:
        endpoints = tuple(
            Endpoint(name, f"{name}-{broker_id}".lower(), 9000 + epoch, SecurityProtocol.PLAINTEXT)
            for name in LISTENERS[: 1 + epoch % 2]
        )
        return Broker(
            broker_id=broker_id,
            epoch=epoch,
            inherits=None,
            endpoints=endpoints,
            rack=None,
            host="one",
            state=state,
        )

    def toggle_topic(self, name: str) -> None:
        topic = self.image.topic(name)
        if topic is not None:
            floor = self.image.epoch_floor + 1
            self.commit(EpochFloor(floor), TopicDeleted(topic.topic_id, name))
            return
        me = Incarnation(1, self.image.brokers[1].epoch)
        partition = Partition(
            topic_id=topic_id(name),
            index=0,
            replicas=(1, 2),
            leader=me,
            leader_epoch=self.image.epoch_floor,
            isr=(me,),
            min_isr=1,
            partition_epoch=0,
        )
        self.commit(Topic(name, topic_id(name)), partition)

    def toggle_broker(self) -> None:
        known = self.image.brokers[2]
        if known.state is BrokerState.GONE:
            self.commit(self.broker(2, known.epoch + 1))
        else:
            self.commit(self.broker(2, known.epoch, BrokerState.GONE))

    def change_controller(self) -> None:
        other = 2 if self.image.controller_id == 1 else 1
        self.commit(ControllerStarted(self.image.controller_epoch + 1, other))

    def ask(
        self, request: MetadataRequest, version: int, listener: str, port: int
    ) -> tuple[bytes, bytes]:
        """What is answered, and what would be if nothing were remembered."""
        remembered = metadata.handle(request, self._call(self.answers, version, listener, port))
        fresh = metadata.handle(request, self._call(ResponseCache(0), version, listener, port))
        return _bytes(remembered, version), _bytes(fresh, version)

    def _call(self, answers: ResponseCache, version: int, listener: str, port: int) -> Any:
        services = SimpleNamespace(
            image=self.image,
            controller_id=-1 if self.image.controller_id is None else self.image.controller_id,
            identity=SimpleNamespace(node_id=1, cluster_id="cluster", advertised=self.advertised),
            metadata=SimpleNamespace(response_cache=answers),
            authorizer=self.authorizer,
        )
        session = SimpleNamespace(listener=listener, local_address=("host", port))
        return Call(APIS[METADATA], version, cast("Any", session), cast("Any", services))


def _bytes(answer: object, version: int) -> bytes:
    return answer.content if isinstance(answer, Encoded) else encode_bytes(answer, version)


topics = st.none() | st.lists(st.sampled_from(NAMES), max_size=4)
questions = st.tuples(
    st.just("ask"),
    topics,
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 1, 7, 9, 10, 12, 13]),
    st.sampled_from(LISTENERS),
    st.sampled_from([9092, 9093]),
)
steps = st.one_of(
    questions,
    questions,
    st.tuples(st.just("topic"), st.sampled_from(NAMES)),
    st.tuples(st.just("broker")),
    st.tuples(st.just("controller")),
    st.tuples(st.just("advertise"), st.booleans()),
    st.tuples(st.just("authorize"), st.none() | st.sampled_from(NAMES)),
)


def question(
    names: list[str] | None, by_id: bool, operations: bool, version: int
) -> MetadataRequest:
    asked = None
    if names is not None or version == 0:
        asked = tuple(
            RequestedTopic(name=None, topic_id=topic_id(name))
            if by_id and version >= 12
            else RequestedTopic(name=name, topic_id=ZERO_UUID)
            for name in names or ()
        )
    return MetadataRequest(
        topics=asked,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations and version >= 8,
    )


@given(st.lists(steps, max_size=30), st.sampled_from([0, 300, 1 << 20]))
def test_an_answer_from_memory_is_the_answer_of_now(
    story: list[tuple[Any, ...]], bytes_max: int
) -> None:
    cluster = Cluster(bytes_max)
    for step in story:
        match step:
            case ("ask", names, by_id, operations, version, listener, port):
                request = question(names, by_id, operations, version)
                for _ in range(2):
                    remembered, fresh = cluster.ask(request, version, listener, port)
                    assert remembered == fresh
                assert cluster.answers.size_bytes <= bytes_max
            case ("topic", name):
                cluster.toggle_topic(name)
            case ("broker",):
                cluster.toggle_broker()
            case ("controller",):
                cluster.change_controller()
            case ("advertise", is_advertised):
                endpoint = Endpoint("OUT", "outside", 1, SecurityProtocol.PLAINTEXT)
                cluster.advertised = (endpoint,) if is_advertised else None
            case ("authorize", seen):
                cluster.authorizer = None if seen is None else Blind("OUT", seen)


def test_the_same_question_is_encoded_once() -> None:
    cluster = Cluster(1 << 20)
    cluster.toggle_topic("a")
    for names in (None, ["a"], ["a", "a"]):
        for _ in range(3):
            cluster.ask(question(names, False, False, 12), 12, "IN", 9092)
    # All topics, and this one.
    assert len(cluster.answers) == 2
    cluster.toggle_topic("b")
    cluster.ask(question(None, False, False, 12), 12, "IN", 9092)
    assert len(cluster.answers) == 1


def test_an_answer_that_says_that_a_topic_is_missing_is_not_kept() -> None:
    cluster = Cluster(1 << 20)
    cluster.ask(question(["a"], False, False, 12), 12, "IN", 9092)
    assert len(cluster.answers) == 0


def test_the_answers_asked_for_last_are_kept() -> None:
    cluster = Cluster(1 << 20)
    cluster.toggle_topic("a")
    once, _ = cluster.ask(question(None, False, False, 12), 12, "IN", 9092)
    cluster.answers = ResponseCache(3 * len(once))
    for port in (1, 2, 3, 1, 4):
        cluster.ask(question(None, False, False, 12), 12, "IN", port)
    assert cluster.answers.size_bytes <= 3 * len(once)
    before = len(cluster.answers)
    cluster.ask(question(None, False, False, 12), 12, "IN", 1)
    assert len(cluster.answers) == before == 3
