"""The network between a machine and the servers: late, and cut off in one direction or both."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Generic, TypeVar

from tests.sim.seams.entropy import SimEntropy

RESEND_US_MAX = 1_000_000

Message = TypeVar("Message")


class Pipe(Generic[Message]):
    """One direction of one connection. Messages arrive in order; a cut holds them."""

    def __init__(
        self,
        link: "SimLink",
        *,
        to_servers: bool,
        context: Context,
        receive: Callable[[Message], None],
    ) -> None:
        """`receive` runs in `context`: a receiver that is paused gets nothing."""
        self._link = link
        self._to_servers = to_servers
        self._context = context
        self._receive = receive
        self._messages: deque[Message] = deque()
        self._held = 0
        self._last_at = 0.0
        link.pipes.append(self)

    def send(self, message: Message) -> None:
        self._messages.append(message)
        loop = asyncio.get_running_loop()
        self._last_at = max(self._last_at, loop.time() + self._link.latency_s())
        loop.call_at(self._last_at, self._deliver, context=self._context)

    def release(self) -> None:
        """The cut was healed. TCP sends again at a time of its own, perhaps much later."""
        if self._held:
            asyncio.get_running_loop().call_later(
                self._link.resend_s(), self._resume, context=self._context
            )

    def _deliver(self) -> None:
        if self._held or self._link.is_cut(to_servers=self._to_servers):
            self._held += 1
        else:
            self._receive(self._messages.popleft())

    def _resume(self) -> None:
        if not self._link.is_cut(to_servers=self._to_servers):
            held, self._held = self._held, 0
            for _ in range(held):
                self._receive(self._messages.popleft())


class SimLink:
    """A machine's network to the servers, used by every client of that machine."""

    def __init__(self, entropy: SimEntropy, latency_us_max: int = 5_000) -> None:
        self.pipes: list[Pipe[Any]] = []
        self.latency_us_max = latency_us_max
        self._entropy = entropy
        self._cut_to_servers = False
        self._cut_from_servers = False

    def cut(self, *, to_servers: bool = True, from_servers: bool = True) -> None:
        """Messages are held, as TCP would send them again later."""
        self._cut_to_servers = to_servers
        self._cut_from_servers = from_servers
        self._release()

    def heal(self) -> None:
        self.cut(to_servers=False, from_servers=False)

    def is_cut(self, *, to_servers: bool) -> bool:
        return self._cut_to_servers if to_servers else self._cut_from_servers

    @property
    def connects(self) -> bool:
        """Whether a new connection can be opened: that takes both directions."""
        return not (self._cut_to_servers or self._cut_from_servers)

    def resend_s(self) -> float:
        return self._entropy.between(0, RESEND_US_MAX) / 1e6

    def latency_s(self) -> float:
        return self._entropy.between(50, self.latency_us_max) / 1e6

    def _release(self) -> None:
        for pipe in list(self.pipes):
            pipe.release()
