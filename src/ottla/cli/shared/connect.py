"""Access to a cluster from commands, with client errors turned into failures."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.name_suggestions import with_suggestion, wrong_name
from ottla.client.connection.bootstrap import parse_addresses
from ottla.client.errors import (
    BadAddress,
    ClientError,
    ConnectionLost,
    Refused,
    TimedOut,
    Unreachable,
)
from ottla.client.options import ClientOptions
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.seams.entropy import RealEntropy
from ottla.seams.net import RealNet

T = TypeVar("T")

_NOT_FOUND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)
_DENIED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)


def router_to(bootstrap: str, timeout_s: float) -> Router:
    """A client of the cluster at these addresses, with the user's timeout."""
    try:
        addresses = parse_addresses(bootstrap)
    except BadAddress as error:
        raise Failure(f"--bootstrap: {error}", exit_code=ExitCode.USAGE) from None
    timeout_ms = int(timeout_s * 1000)
    options = ClientOptions(
        client_id="ottla-cli",
        socket_connection_setup_timeout_ms=timeout_ms,
        request_timeout_ms=timeout_ms,
        default_api_timeout_ms=timeout_ms,
    )
    return Router(addresses, net=RealNet(), entropy=RealEntropy(), options=options)


def run_with_cluster(bootstrap: str, timeout_s: float, work: Callable[[Router], Awaitable[T]]) -> T:
    """Connects to a cluster and runs `work` with it. Raises Failure for client errors."""

    async def connect_and_run() -> T:
        async with router_to(bootstrap, timeout_s) as router:
            return await with_name_suggestions(router, work(router))

    with client_errors_as_failures(bootstrap):
        return asyncio.run(connect_and_run())


async def with_name_suggestions(router: Router, work: Awaitable[T]) -> T:
    """Runs `work`. If it names something missing, the Failure suggests a similar name."""
    try:
        return await work
    except Refused as refused:
        raise await with_suggestion(refused, router) from refused


@contextmanager
def client_errors_as_failures(bootstrap: str) -> Iterator[None]:
    """Turns client errors into Failures."""
    try:
        yield
    except ClientError as error:
        raise client_failure(error, bootstrap) from error


def client_failure(error: ClientError, bootstrap: str) -> Failure:
    match error:
        case Unreachable() | ConnectionLost() | TimedOut():
            return Failure(
                f"no response from {bootstrap}",
                why=str(error),
                advice="`ottla up` starts a local broker; --bootstrap HOST:PORT names another one",
                exit_code=ExitCode.UNREACHABLE,
            )
        case Refused() if error.code == ErrorCode.NOT_CONTROLLER:
            return Failure(
                "the cluster has no controller",
                why=str(error),
                advice="try again when one is elected; `ottla doctor` examines the brokers",
            )
        case Refused() if error.code in _NOT_FOUND:
            return wrong_name(error) or Failure(
                f"{error.what} does not exist",
                advice="`ottla topic list` shows the existing topics",
                exit_code=ExitCode.NOT_FOUND,
            )
        case Refused() if error.code in _DENIED:
            why = error.message or error.code.name
            return Failure(f"{error.what}: denied", why=why, exit_code=ExitCode.DENIED)
        case Refused():
            return Failure(error.what, why=error.message or error.code.name)
        case _:
            return Failure(str(error))
