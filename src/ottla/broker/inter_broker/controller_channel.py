"""Sends requests to the controller, whichever broker that is, until they are answered.

The controller is the one that the image names. A request is sent again after NOT_CONTROLLER, a lost
connection or a timeout, so the controller may carry it out twice. The callers' requests allow that:
what was done the first time is refused the second time (TOPIC_ALREADY_EXISTS), or done again.
"""

import asyncio
from typing import Any

from ottla.broker.inter_broker.shared_connection import (
    ChannelParts,
    Peer,
    SharedConnection,
    find_peer,
)
from ottla.client.errors import ClientError, ConnectionLost
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.store import Entry

BACKOFF_MS = 50
BACKOFF_MS_MAX = 1_000
# A request on which the controller ends the connection so often may be the reason for it.
LOST_MAX = 10


class ControllerIsHere(Exception):
    """This broker is the controller: the caller carries out the request itself."""


class ControllerChannel:
    """One connection to the controller. Any number of callers may ask at once, within limits."""

    def __init__(self, parts: ChannelParts) -> None:
        self._parts = parts
        self._shared = SharedConnection(parts, "the controller")

    async def ask(self, request: object, *, timeout_ms: int, held_bytes: int = 0) -> Any:
        """The controller's response, which has an error code other than NOT_CONTROLLER.

        ControllerIsHere if this broker is the controller. PeerError REQUEST_TIMED_OUT if there is
        no answer within `timeout_ms`, or too many requests wait: the request may have been carried
        out. `held_bytes` is the request's size, if it is not small.
        """
        with self._shared.holding(held_bytes):
            try:
                async with asyncio.timeout(timeout_ms / 1e3):
                    return await self._ask_until_answered(request, held_bytes)
            except TimeoutError:
                raise _timed_out("The controller has not answered in time.") from None

    def follow(self, image: Image, entry: Entry) -> None:  # noqa: ARG002 - a subscriber's signature
        """Leaves a former controller, which may be out of reach without a word."""
        if self._shared.peer is not None and self._find(image) != self._shared.peer:
            self._shared.leave()

    def close(self) -> None:
        """Ends the connections. Whoever asks is to be cancelled by its owner."""
        self._shared.close()

    async def _ask_until_answered(self, request: object, held_bytes: int) -> Any:
        losses = failures = 0
        while True:
            if self._parts.is_controller():
                raise ControllerIsHere
            try:
                response = await self._ask_once(request, held_bytes)
                if response is not None and response.error_code != ErrorCode.NOT_CONTROLLER:
                    return response
            except ClientError as error:
                self._shared.report(error)
                losses += isinstance(error, ConnectionLost)
                if losses >= LOST_MAX:
                    raise _timed_out("The controller ends the connection.") from error
            await asyncio.sleep(self._backoff_s(failures))
            failures += 1

    async def _ask_once(self, request: object, held_bytes: int) -> Any | None:
        """The response of the broker that the image names; None if it names none. ClientError."""
        controller = self._find(self._parts.image())
        if controller is None:
            self._shared.report(f"no controller with a listener {self._parts.listener} is known")
            return None
        connection = await self._shared.connected(controller)
        return await self._shared.exchange(connection, request, held_bytes)

    def _find(self, image: Image) -> Peer | None:
        """The controller that the image names, if it is another broker with an address."""
        controller_id = image.controller_id
        if controller_id is None or controller_id == self._parts.node_id:
            return None
        return find_peer(image, controller_id, self._parts.listener)

    def _backoff_s(self, failures: int) -> float:
        """Doubles with each failure, and varies by a fifth, so that brokers do not ask in step."""
        backoff_ms = min(BACKOFF_MS_MAX, BACKOFF_MS << min(failures, 10))
        return (backoff_ms * 4 // 5 + self._parts.entropy.below(backoff_ms * 2 // 5)) / 1e3


def _timed_out(why: str) -> PeerError:
    return PeerError(ErrorCode.REQUEST_TIMED_OUT, why)
