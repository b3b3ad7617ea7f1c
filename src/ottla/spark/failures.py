"""Errors of a query, with advice in their messages."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.client.errors import ClientError, Refused
from ottla.errors import ErrorCode, OttlaError
from ottla.spark.options import SourceOptions

_log = logging.getLogger("ottla.spark")


class SourceFailed(OttlaError):
    """The cluster refused a request or did not respond. The message gives advice."""


class DataLost(OttlaError):
    """Records were lost before they were read, and `failOnDataLoss` is on."""


_ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "create the topic (ottla topic create NAME), or correct subscribe or assign"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the topic name is invalid: correct subscribe or assign",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "let this user read and describe the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "let this user read the group, or leave out groupId",
}


@contextmanager
def explain_errors(options: SourceOptions) -> Iterator[None]:
    """Turns a client's error into one that names the option to check."""
    try:
        yield
    except Refused as error:
        advice = _ADVICE.get(error.code, "see the broker's log")
        raise SourceFailed(f"{error} (at {options.bootstrap_servers}): {advice}") from error
    except ClientError as error:
        raise SourceFailed(
            f"{error}. Is a broker running at kafka.bootstrap.servers, "
            f"{options.bootstrap_servers}, and can every Spark node reach it and the addresses "
            "that it advertises?"
        ) from error


def warn(message: str) -> None:
    """Logs a warning on the driver or the executor."""
    _log.warning("ottla: %s", message)


def report_data_loss(options: SourceOptions, what: str, instead: str) -> None:
    """Raises DataLost if `failOnDataLoss` is on; otherwise warns and names the consequence."""
    if options.fail_on_data_loss:
        raise DataLost(
            f"{what}: records may be lost. To continue anyway ({instead}), set failOnDataLoss to "
            "false; to start over, give the query a new checkpointLocation or other "
            "startingOffsets"
        )
    warn(f"{what}: records may be lost; {instead}")
