"""What went wrong, in words that say what to do: for whoever reads the error of a query."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.client.errors import ClientError, Refused
from ottla.errors import ErrorCode, OttlaError
from ottla.spark.options import SourceOptions

_log = logging.getLogger("ottla.spark")


class SourceFailed(OttlaError):
    """The cluster does not give what was asked for. The message says what to do."""


class DataLost(OttlaError):
    """Records are gone that were to be read, and `failOnDataLoss` is on."""


_ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: (
        "make the topic (ottla topic create NAME), or correct subscribe or assign"
    ),
    ErrorCode.INVALID_TOPIC_EXCEPTION: "no topic can have this name: correct subscribe or assign",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "let this user read and describe the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "let this user read the group, or leave out groupId",
}


@contextmanager
def explained(options: SourceOptions) -> Iterator[None]:
    """Turns a client's error into one that says which option to look at."""
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
    """Says it on the standard error of the driver or the executor."""
    _log.warning("ottla: %s", message)


def report_loss(options: SourceOptions, what: str, instead: str) -> None:
    """Fails the query, or says what is done instead, as `failOnDataLoss` has it. DataLost."""
    if options.fail_on_data_loss:
        raise DataLost(
            f"{what}: records may be lost. To go on all the same ({instead}), set failOnDataLoss "
            "to false; to begin anew, give the query a new checkpointLocation or other "
            "startingOffsets"
        )
    warn(f"{what}: records may be lost; {instead}")
