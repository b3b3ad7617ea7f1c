"""A leader that is stopped for longer than its session, and wakes as if nothing had happened."""

from typing import Any

from ottla.address import Address
from ottla.client.blocking.connection import BlockingConnection, dial
from ottla.client.errors import ClientError
from ottla.client.options import ClientOptions
from ottla.errors import ErrorCode
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from ottla.seams.blocking import RealBlocking
from ottla.seams.clock import RealClock
from tests.cluster.chaos.faults.fault import Fault, require
from tests.cluster.chaos.stage import SETTLE_TIMEOUT_S
from tests.cluster.chaos.waiting import wait_until
from tests.support.raw_produce import VERSION
from tests.support.storage.workbench import batch_of

_OPTIONS = ClientOptions(client_id="stage", request_timeout_ms=60_000)


class WrongFirstAnswer(Exception):
    """A leader that woke took a record, though another one leads."""


class PauseLeader(Fault):
    """The first answer after it wakes is a refusal, or the end of the connection."""

    name = "stop a leader's process for twice its session"

    def inject(self) -> None:
        self.paused = self.a_leader()
        partitions = self.stage.view().topics[self.topic].partitions
        led = [each for each in partitions if each.leader == self.paused.broker_id]
        self._partition = led[0].number
        self._connection = self.paused.host.namespace.call(lambda: _connect(self.paused.address))
        self.paused.pause()

    def check(self) -> None:
        state = self.paused.process_state()
        require(state == "T", f"{self.paused} is stopped, not {state}")
        others = [each for each in self.stage.brokers.values() if each is not self.paused]

        def is_replaced() -> bool:
            views = [broker.metadata() for broker in others]
            return all(
                view is not None and self.paused.broker_id not in view.brokers for view in views
            )

        wait_until(is_replaced, SETTLE_TIMEOUT_S, lambda: f"{self.paused} is noticed")

    def heal(self) -> None:
        """WrongFirstAnswer."""
        # The request waits in the socket of the stopped process.
        number = self._connection.send(self._produce(), version_max=VERSION)
        self.paused.resume()
        try:
            answer: Any = self._connection.answer(number)
        except ClientError:
            return
        finally:
            self._connection.close()
        ((result,),) = [each.partition_responses for each in answer.responses]
        if result.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise WrongFirstAnswer(f"{self.paused}: {ErrorCode(result.error_code).name}")

    @property
    def target(self) -> str:
        return str(self.paused)

    def _produce(self) -> ProduceRequest:
        batch = bytes(batch_of(value=b"sent to a stopped leader"))
        own = Partition(index=self._partition, records=batch)
        data = (Topic(name=self.topic, partition_data=(own,)),)
        return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=data)


def _connect(address: Address) -> BlockingConnection:
    return dial(RealBlocking(), RealClock(), address, _OPTIONS)
