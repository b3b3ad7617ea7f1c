"""Sends requests to any other broker: one connection for each, and one attempt for each request.

A caller that gets no answer does not know whether its request was carried out. It decides itself
whether to ask again, and whom: the leader that it meant may be another broker by then.
"""

import asyncio
from typing import Any

from ottla.broker.inter_broker.shared_connection import (
    ChannelParts,
    Peer,
    SharedConnection,
    find_peer,
)
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.store import Entry


class BrokerChannels:
    """Connections to brokers of the image, by broker id. Limits apply to each broker by itself."""

    def __init__(self, parts: ChannelParts) -> None:
        self._parts = parts
        self._shared: dict[int, SharedConnection] = {}

    async def ask(
        self, broker_id: int, request: object, *, timeout_ms: int, held_bytes: int = 0
    ) -> Any:
        """The broker's response.

        PeerError BROKER_NOT_AVAILABLE if the image has no live broker of this id: then nothing was
        sent. PeerError REQUEST_TIMED_OUT, or ClientError, if there is no answer: the request may
        have been carried out. `held_bytes` is the request's size, if it is not small.
        """
        peer = self._find(self._parts.image(), broker_id)
        if peer is None:
            raise PeerError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"No live broker {broker_id} with a listener {self._parts.listener} is known.",
            )
        shared = self._shared.get(broker_id)
        if shared is None:
            shared = self._shared[broker_id] = SharedConnection(self._parts, f"broker {broker_id}")
        with shared.holding(held_bytes):
            try:
                async with asyncio.timeout(timeout_ms / 1e3):
                    connection = await shared.connected(peer)
                    return await shared.exchange(connection, request, held_bytes)
            except TimeoutError:
                raise PeerError(
                    ErrorCode.REQUEST_TIMED_OUT, f"Broker {broker_id} has not answered in time."
                ) from None

    def follow(self, image: Image, entry: Entry) -> None:  # noqa: ARG002 - a subscriber's signature
        """Leaves brokers that are gone or have another address or epoch."""
        for broker_id, shared in self._shared.items():
            if shared.peer is not None and self._find(image, broker_id) != shared.peer:
                shared.leave()

    def close(self) -> None:
        """Ends the connections. Whoever asks is to be cancelled by its owner."""
        for shared in self._shared.values():
            shared.close()

    def _find(self, image: Image, broker_id: int) -> Peer | None:
        return find_peer(image, broker_id, self._parts.listener)
