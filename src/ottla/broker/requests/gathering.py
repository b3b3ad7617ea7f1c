"""Gathers the small requests of one API that arrive in one turn of the event loop.

They are handled together at the beginning of the next turn. A hundred clients that send one small
request each then cost one write and one wake-up per partition, not a hundred.
"""

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.broker.net.connection import Connection
from ottla.broker.net.response_queue import PendingResponse, ResponseParts
from ottla.protocol.messages import APIS

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services

# Larger requests gain little: the system calls are a small part of their cost. An API may gather
# larger ones all the same.
GATHERED_BYTES_MAX = 4 << 10
# Gathered requests of this size are handled at once.
GATHERED_TOGETHER_BYTES_MAX = 1 << 20

# The argument of `Connection.settle`.
GatheredOutcome = bytearray | ResponseParts | PendingResponse | Awaitable[ResponseParts]

RequestT = TypeVar("RequestT")
EntryT = TypeVar("EntryT")


class Gathering(ABC, Generic[RequestT, EntryT]):
    """The gathered requests of all connections of a node.

    A connection has at most one of them, or any number that get no response.
    """

    def __init__(
        self,
        services: "Services",
        on_fault: Callable[[Exception], None],
        api_key: int,
        read: Callable[[memoryview], RequestT | None],
        entries_max: int,
    ) -> None:
        """`read` is the API's native decoder. It returns None for requests that it declines."""
        self._services = services
        self._on_fault = on_fault
        self._api = APIS[api_key]
        self._read = read
        self._entries_max = entries_max
        self._seconds = services.metrics.request(self._api.name).seconds
        self._steady_ns = services.clock.steady_ns
        self._handler: Any = None
        # The last frame that was read and not kept, and its request, which is handled by itself.
        self.declined: tuple[memoryview, RequestT] | None = None
        # In the order of arrival, their size, and the arrival time of the first.
        self._waiting: list[EntryT] = []
        self._waiting_bytes = 0
        self._since_ns = 0

    def gather(
        self, frame: memoryview, connection: Connection, is_silent_only: bool = False
    ) -> bool:
        """Whether the request is kept. The connection gets the outcome by its `settle`.

        `is_silent_only` declines requests that get a response, whose order would have to be kept.
        """
        size_bytes = len(frame)
        if size_bytes > GATHERED_BYTES_MAX and not self._may_gather(size_bytes):
            return False
        request = self._read(frame)
        if request is None:
            return False
        entry = self._entry(request, frame, connection, is_silent_only)
        if entry is None:
            self.declined = frame, request
            return False
        self._waiting_bytes += size_bytes
        if (
            len(self._waiting) == self._entries_max
            or self._waiting_bytes > GATHERED_TOGETHER_BYTES_MAX
        ):
            self.settle()
            self._waiting_bytes = size_bytes
        waiting = self._waiting
        if not waiting:
            self._since_ns = self._steady_ns()
            asyncio.get_running_loop().call_soon(self.settle)
        waiting.append(entry)
        return True

    def settle(self) -> None:
        """Handles all gathered requests.

        Responses are sent at the end, one right after another: a client process with several
        connections is woken once for all of them.
        """
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        if not waiting:
            return
        try:
            for connection, outcome in self._handle_together(waiting):
                connection.settle(outcome)
        except Exception as error:  # noqa: BLE001 - the loop would only log it
            self._on_fault(error)

    def _may_gather(self, size_bytes: int) -> bool:  # noqa: ARG002 - most APIs gather none of them
        """Whether a request that is larger than GATHERED_BYTES_MAX may be gathered."""
        return False

    @abstractmethod
    def _entry(
        self, request: RequestT, frame: memoryview, connection: Connection, is_silent_only: bool
    ) -> EntryT | None:
        """The entry that is kept until `settle`; None if the request is handled by itself.

        The next connection overwrites `frame`.
        """

    @abstractmethod
    def _handle_together(
        self, entries: list[EntryT]
    ) -> Iterable[tuple[Connection, GatheredOutcome]]:
        """The outcome of each entry. Handles all of them before it returns the first outcome."""

    def _elapsed_s(self, since_ns: int) -> float:
        return (self._steady_ns() - since_ns) / 1e9

    def _import(self) -> Any:
        """Imports the API's handler, like `Dispatch`, when it is first called."""
        name = self._api.module.rpartition(".")[2]
        self._handler = importlib.import_module(f"ottla.broker.handlers.{name}")
        return self._handler
