"""Small requests of one API that arrive in one turn of the loop, handled together.

What arrives in one turn is settled at the beginning of the next. A hundred clients that send one
small request each then cost one write and one wake-up per partition, not a hundred.
"""

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.broker.net.connection import Connection, Later, Reply
from ottla.protocol.messages import APIS

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

# Of a larger request, reading, writing and waking are a small part.
GATHERED_BYTES_MAX = 4 << 10

# As `Connection.settle` takes it.
Outcome = bytearray | Reply | Later | Awaitable[Reply]

RequestT = TypeVar("RequestT")
EntryT = TypeVar("EntryT")


class Gathering(ABC, Generic[RequestT, EntryT]):
    """Keeps them for all connections of a node.

    A connection has one gathered at most, or any number that want no reply.
    """

    def __init__(
        self,
        services: "Services",
        on_fault: Callable[[Exception], None],
        api_key: int,
        read: Callable[[memoryview], RequestT | None],
        entries_max: int,
    ) -> None:
        """`read` is the API's native one: None for a request that is out of the ordinary."""
        self._services = services
        self._on_fault = on_fault
        self._api = APIS[api_key]
        self._read = read
        self._entries_max = entries_max
        self._seconds = services.metrics.request(self._api.name).seconds
        self._steady_ns = services.clock.steady_ns
        self._handler: Any = None
        # In the order of their arrival, and when the first of them came.
        self._waiting: list[EntryT] = []
        self._since_ns = 0

    def gather(
        self, frame: memoryview, connection: Connection, is_silent_only: bool = False
    ) -> bool:
        """Keeps a small ordinary request; the connection is told by its `settle`.

        `is_silent_only`: only if it wants no reply, so that no replies have to keep their order.
        """
        if len(frame) > GATHERED_BYTES_MAX:
            return False
        request = self._read(frame)
        if request is None:
            return False
        entry = self._entry(request, frame, connection, is_silent_only)
        if entry is None:
            return False
        if len(self._waiting) == self._entries_max:
            self.settle()
        waiting = self._waiting
        if not waiting:
            self._since_ns = self._steady_ns()
            asyncio.get_running_loop().call_soon(self.settle)
        waiting.append(entry)
        return True

    def settle(self) -> None:
        """Handles all that was gathered.

        Replies go out at the end, one right after another: a client that is woken by the first of
        them finds the others before it sleeps again.
        """
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            for connection, outcome in self._handle_together(waiting):
                connection.settle(outcome)
        except Exception as error:  # noqa: BLE001 - the loop would only log it
            self._on_fault(error)

    @abstractmethod
    def _entry(
        self, request: RequestT, frame: memoryview, connection: Connection, is_silent_only: bool
    ) -> EntryT | None:
        """What is kept of a request until it is settled; None if it is handled by itself.

        `frame` is overwritten by the next connection's.
        """

    @abstractmethod
    def _handle_together(self, entries: list[EntryT]) -> Iterable[tuple[Connection, Outcome]]:
        """What became of each. All of them are handled before the first outcome is told."""

    def _elapsed_s(self, since_ns: int) -> float:
        return (self._steady_ns() - since_ns) / 1e9

    def _import(self) -> Any:
        """The API's handler: as with every other, imported when it is first called."""
        name = self._api.module.rpartition(".")[2]
        self._handler = importlib.import_module(f"ottla.broker.handlers.{name}")
        return self._handler
