"""Ways of a transactional client's requests to the brokers that take them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.line import Line
from tests.sim.broker.machine import Machine
from tests.sim.request_line import RequestLine


class Way(NamedTuple):
    """A connection, and the life of the broker in which a request on it may take effect."""

    line: RequestLine
    life: int


class Route(Protocol):
    """One client's. A connection that is lost is opened again when it is needed."""

    async def way(self, request: object) -> Way:
        """To the broker that takes the request. OSError or TimeoutError if there is none."""
        ...

    async def way_to_group(self) -> Way:
        """To the coordinator of the group. Raises as `way`."""
        ...

    async def together(self, places: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Those of the partitions that one produce request may be about."""
        ...

    def refused(self, request: object) -> None:
        """A broker did not take the request: it may be another one's."""
        ...

    def drop(self, way: Way) -> None:
        """Closes a connection."""
        ...

    def abandon(self, way: Way) -> None:
        """Uses a connection no more, and leaves it open: requests may still be under way."""
        ...

    def close(self) -> None:
        """Closes all connections."""
        ...


class BrokerRoute:
    """The route to the only broker."""

    def __init__(self, machine: Machine, host: str) -> None:
        self._machine = machine
        self._host = host
        self._line: Line | None = None
        self._abandoned: list[RequestLine] = []

    async def way(self, request: object) -> Way:
        return await self.way_to_group()

    async def way_to_group(self) -> Way:
        if self._line is None:
            self._line = await Line.open(self._machine, self._host)
        return Way(self._line, self._line.life)

    async def together(self, places: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        return places

    def refused(self, request: object) -> None:
        """There is no other broker."""

    def drop(self, way: Way) -> None:
        way.line.close()
        if way.line is self._line:
            self._line = None

    def abandon(self, way: Way) -> None:
        self._abandoned.append(way.line)
        self._line = None

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
        for line in self._abandoned:
            line.close()
        self._abandoned.clear()
