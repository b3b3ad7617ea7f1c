"""Legal topic names, and the names of internal topics."""

import string

from ottla.errors import ErrorCode, PeerError
from ottla.storage.directory.directory import METADATA_LOGS

NAME_CHARACTERS_MAX = 249
LEGAL_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._-")

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})

# How much of an illegal name an error message repeats.
_SHOWN_CHARACTERS_MAX = 300


def check_topic_name(name: str) -> None:
    """PeerError INVALID_TOPIC_EXCEPTION if the name is illegal."""
    fault = _fault_of(name)
    if fault:
        raise PeerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: '{name[:_SHOWN_CHARACTERS_MAX]}' {fault}",
        )


def missing_topic_code(name: str) -> ErrorCode:
    """The error code for a topic that does not exist: unknown, or an illegal name."""
    if _fault_of(name):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def is_internal(name: str) -> bool:
    """Whether a topic is internal, as Metadata reports it."""
    return name in INTERNAL_TOPICS


def metric_name(name: str) -> str:
    """A topic's name in metrics, which has no dots.

    Topics with the same name in metrics could not be distinguished there.
    """
    return name.replace(".", "_")


def _fault_of(name: str) -> str | None:
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is a directory of the file system"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"has {len(name)} characters, {NAME_CHARACTERS_MAX} are allowed"
    if not LEGAL_CHARACTERS.issuperset(name):
        return "has other characters than ASCII letters, digits, '.', '_' and '-'"
    if name in METADATA_LOGS:
        return "is kept for metadata"
    return None
