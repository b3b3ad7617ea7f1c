"""Observations of transactions by their producers."""

from ottla.errors import ErrorCode
from tests.support.broker.observations import TOPIC, World
from tests.support.broker.transactional_requests import Producer


async def send_without_adding(world: World) -> ErrorCode:
    """The answer to a batch in a transaction to which its partition was not added."""
    producer = Producer(world.client, version=1)
    await producer.begin()
    return ErrorCode(await producer.send(TOPIC, b"value"))
