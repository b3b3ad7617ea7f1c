"""The interface through which handlers and background tasks change the metadata.

Every change of the metadata is a decision that goes through `Controller.commit`. Today this broker
commits it or refuses it. A remote controller could get the records with the offset of the image
that they were decided on, and refuse them if its own image is ahead; the decision is then made
again. So a decision has no effects besides its result.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ottla.metadata.image import Image
from ottla.metadata.records import Record

Reply = TypeVar("Reply")


class Controller(Protocol):
    """The only way to change the cluster metadata, wherever the controller is."""

    async def commit(self, decide: Callable[[Image], tuple[Sequence[Record], Reply]]) -> Reply:
        """Decides on the newest image and replies once this broker has applied the records.

        All of them are committed, or none. PeerError if none was: the decision's own,
        NOT_CONTROLLER, or KAFKA_STORAGE_ERROR if the disk cannot be written.
        """
        ...
