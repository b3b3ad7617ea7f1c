"""Which brokers the controller takes requests from."""

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.values import Incarnation


def require_current(image: Image, requester: Incarnation) -> None:
    """PeerError STALE_BROKER_EPOCH unless a broker is live and this is its newest incarnation."""
    broker = image.brokers.get(requester.broker_id)
    if broker is None or not broker.is_live or broker.epoch != requester.broker_epoch:
        raise PeerError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"{requester.broker_epoch} is not the epoch of broker {requester.broker_id}",
        )
