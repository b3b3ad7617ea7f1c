"""Questions about partitions: who is to be asked, what is asked again, what is known in the end."""

import pytest

from ottla.address import Address
from ottla.client.errors import ClientError, ConnectionLost, Refused
from ottla.client.options import ClientOptions
from ottla.client.routing.outcomes import Questions, answered
from ottla.client.routing.retries import Backoff
from ottla.client.routing.topology import Broker, Partition, Topic, Topology
from ottla.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.entropy import SimEntropy

ONE, TWO = (Broker(number, Address("host", number), None) for number in (1, 2))
FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))
LOST = ConnectionLost("it is gone")
DENIED = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "orders")


def led_by(*leaders: int) -> Topology:
    partitions = tuple(
        Partition(number, leader, 0, (1, 2), (1, 2), ()) for number, leader in enumerate(leaders)
    )
    return Topology(
        {1: ONE, 2: TWO}, topics={"orders": Topic("orders", ZERO_UUID, False, partitions)}
    )


def test_each_leader_is_asked_about_what_it_leads_and_nothing_twice() -> None:
    questions = Questions[int]([FIRST, SECOND, THIRD, FIRST])
    assert questions.by_leader(led_by(1, 2, 1)) == {ONE: [FIRST, THIRD], TWO: [SECOND]}
    assert questions.topics == {"orders"}
    assert not questions.has_every_outcome


def test_only_what_may_pass_is_asked_again() -> None:
    questions = Questions[int]([FIRST, SECOND, THIRD])
    questions.by_leader(led_by(1, 2, 1))
    questions.answer([FIRST, THIRD], {FIRST: 5, THIRD: DENIED})
    questions.fail([SECOND], LOST)
    assert questions.end_round() is LOST
    assert questions.by_leader(led_by(1, 1, 1)) == {ONE: [SECOND]}
    questions.answer([SECOND], {SECOND: 6})
    assert questions.end_round() is None
    assert questions.topics == set()
    assert questions.outcomes == {FIRST: 5, SECOND: 6, THIRD: DENIED}


def test_what_nobody_leads_has_its_outcome_without_being_asked() -> None:
    questions = Questions[int]([FIRST, TopicPartition("gone", 0)])
    assert questions.by_leader(led_by(-1)) == {}
    assert questions.has_every_outcome
    codes = [each.code for each in questions.outcomes.values() if isinstance(each, Refused)]
    assert codes == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_partition_that_an_answer_lacks_is_an_error() -> None:
    questions = Questions[int]([FIRST, SECOND])
    questions.by_leader(led_by(1, 1))
    questions.answer([FIRST, SECOND], {FIRST: 5})
    assert answered(questions.outcomes[FIRST]) == 5
    with pytest.raises(Refused, match="the answer lacks it"):
        answered(questions.outcomes[SECOND])


@pytest.mark.parametrize(
    ("error", "waited_ms", "waits"),
    [
        (LOST, 0, True),
        (LOST, 999, False),
        (DENIED, 0, False),
        (Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders"), 0, True),
        (Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders"), 299, False),
    ],
)
def test_one_waits_for_what_may_pass_as_long_as_it_is_worth_it(
    error: ClientError, waited_ms: int, waits: bool
) -> None:
    options = ClientOptions(default_api_timeout_ms=1000, unknown_topic_grace_ms=300)
    pause_ms = Backoff(options, SimEntropy(0)).pause_after(error, waited_ms)
    assert (pause_ms is not None) == waits
