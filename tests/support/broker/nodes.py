"""Runs a node with access to its parts, and encodes requests."""

from collections.abc import Callable, Coroutine
from typing import Any

from ottla.broker.node.node import Node
from ottla.protocol.exchange import encode_request
from ottla.protocol.messages import APIS
from tests.sim.seams.loop import run
from tests.support.broker.simulated_broker import Client, Machine


def with_node(
    story: Callable[[Client, Node], Coroutine[Any, Any, None]],
    machine: Machine | None = None,
    **settings: str,
) -> None:
    """Runs a story with one broker, from its start to its stop, in virtual time."""
    machine = machine or Machine()

    async def tell() -> None:
        async with machine.running(**settings) as (client, node):
            await story(client, node)

    run(tell(), clock=machine.clock)


def framed(request: Any, version: int, correlation_id: int = 7) -> bytes:
    """An encoded request with its length."""
    api = next(api for api in APIS.values() if api.request is type(request))
    parts: list[Any] = encode_request(correlation_id, api, version, request)
    return b"".join(map(bytes, parts))
