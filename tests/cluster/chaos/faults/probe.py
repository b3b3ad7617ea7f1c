"""One record sent to one broker, as it is, and what the broker says to it."""

from typing import Any

from ottla.address import Address
from ottla.client.blocking.connection import BlockingConnection, dial
from ottla.client.options import ClientOptions
from ottla.errors import ErrorCode
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from ottla.seams.blocking import RealBlocking
from ottla.seams.clock import RealClock
from tests.cluster.chaos.broker import ChaosBroker
from tests.support.raw_produce import VERSION
from tests.support.storage.workbench import batch_of

ANSWER_TIMEOUT_MS = 30_000
_OPTIONS = ClientOptions(client_id="probe", request_timeout_ms=ANSWER_TIMEOUT_MS)


class Probe:
    """A connection to a broker, made on its own host, where no cut is. ClientError."""

    def __init__(self, broker: ChaosBroker) -> None:
        self._connection = broker.host.namespace.call(lambda: _connect(broker.address))

    def send(self, topic: str, partition: int, *, acks: int) -> int:
        """The number for `error`."""
        batch = bytes(batch_of(value=b"sent by a fault"))
        data = (Topic(name=topic, partition_data=(Partition(index=partition, records=batch),)),)
        request = ProduceRequest(acks=acks, timeout_ms=ANSWER_TIMEOUT_MS // 2, topic_data=data)
        return self._connection.send(request, version_max=VERSION)

    def error(self, number: int) -> ErrorCode:
        """What the broker answers about the record."""
        answer: Any = self._connection.answer(number)
        ((result,),) = [each.partition_responses for each in answer.responses]
        return ErrorCode(result.error_code)

    def close(self) -> None:
        self._connection.close()


def _connect(address: Address) -> BlockingConnection:
    return dial(RealBlocking(), RealClock(), address, _OPTIONS)
