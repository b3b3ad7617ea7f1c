"""The controller's decision to reserve a block of producer ids for a broker."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.metadata.controller.requesting_broker import require_current
from ottla.metadata.image import Image
from ottla.metadata.records import ProducerIds, Record
from ottla.metadata.values import Incarnation

BLOCK_IDS = 1000


class ProducerIdBlock(NamedTuple):
    """The ids from `first_id` on."""

    first_id: int
    size: int


def reserve_block(image: Image) -> tuple[Sequence[Record], ProducerIdBlock]:
    """The record that reserves the next block, and the block."""
    first_id = image.next_producer_id
    return [ProducerIds(first_id + BLOCK_IDS)], ProducerIdBlock(first_id, BLOCK_IDS)


def reserve_block_for(
    requester: Incarnation, image: Image
) -> tuple[Sequence[Record], ProducerIdBlock]:
    """The same for a broker that asks. PeerError STALE_BROKER_EPOCH unless that is current."""
    require_current(image, requester)
    return reserve_block(image)
