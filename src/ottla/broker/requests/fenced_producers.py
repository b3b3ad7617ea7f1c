"""The error code of a fenced producer, which older versions of the transaction APIs do not have."""

from ottla.errors import ErrorCode, PeerError


def fenced_code(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """PRODUCER_FENCED is INVALID_PRODUCER_EPOCH in versions before `since` (KIP-588)."""
    if code is ErrorCode.PRODUCER_FENCED and version < since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def in_older_words(error: PeerError, version: int, since: int) -> PeerError:
    """The error, with the code that this version of an API has for it."""
    return PeerError(fenced_code(error.code, version, since), str(error))
