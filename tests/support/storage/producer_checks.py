"""Asking a producer state what it would do."""

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import BatchHeader, Marker, MarkerKind
from ottla.storage.producers.state import ProducerStates

ABORT = Marker(MarkerKind.ABORT, coordinator_epoch=0)
COMMIT = Marker(MarkerKind.COMMIT, coordinator_epoch=0)
DAY_MS = 86_400_000


def refusal(states: ProducerStates, header: BatchHeader) -> ErrorCode | None:
    """The code a client's batch is refused with; None if it would be appended."""
    try:
        assert states.check(header, from_client=True) is None
    except PeerError as error:
        return error.code
    return None


def marker_refusal(
    states: ProducerStates, header: BatchHeader, marker: Marker, transaction_version: int = 2
) -> ErrorCode | None:
    try:
        states.check_marker(header, marker, transaction_version=transaction_version)
    except PeerError as error:
        return error.code
    return None


def states_after(*batches: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for header in batches:
        states.replay(header)
    return states
