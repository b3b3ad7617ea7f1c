"""Enforces client quotas: a client over its rate gets its response, and then has to wait.

As in Kafka, the response says how long, and the broker handles no further request of that
connection before. It handles the frames of sessions only while there is any quota, so that brokers
without quotas do not pay for them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ottla.broker.net.connection import Connection, FrameHandler
from ottla.broker.net.response_queue import PendingResponse, ResponseParts
from ottla.broker.net.session import UNLIMITED
from ottla.broker.requests.client_quotas import ClientQuotas, TokenBucket
from ottla.broker.requests.produce_fast_path import PRODUCE_KEY
from ottla.metadata.quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE

FETCH_KEY = 1
QUOTA_OF_API = {PRODUCE_KEY: PRODUCER_BYTE_RATE, FETCH_KEY: CONSUMER_BYTE_RATE}
# What is overdrawn beyond this counts for the next request.
THROTTLE_MS_MAX = 30_000
# The client id follows the API's key and version and the correlation id.
_CLIENT_ID_AT = 8


class Charge:
    """The `QuotaBucket` of a session while one request of its client is handled."""

    __slots__ = ("_bucket", "_now_ns", "response_bytes_max", "throttle_time_ms")

    def __init__(self, bucket: TokenBucket, now_ns: Callable[[], int]) -> None:
        self._bucket: Final = bucket
        self._now_ns: Final = now_ns
        self.response_bytes_max = bucket.burst_bytes
        self.throttle_time_ms = 0

    def spend(self, size_bytes: int) -> None:
        wait_ms = self._bucket.spend(size_bytes, self._now_ns()) * 1000
        self.throttle_time_ms = min(round(wait_ms), THROTTLE_MS_MAX)


class ProduceCharge(Charge):
    """Producers pay for what they send."""

    __slots__ = ()

    def charge_response(self, size_bytes: int) -> bool:  # noqa: ARG002 - it costs nothing
        return False


class FetchCharge(Charge):
    """Consumers pay for what they get."""

    __slots__ = ()

    def charge_response(self, size_bytes: int) -> bool:
        self.spend(size_bytes)
        return self.throttle_time_ms > 0


class ThrottledRequests:
    """The `FrameHandler` that charges Produce and Fetch, and leaves the handling to another one."""

    def __init__(
        self,
        requests: FrameHandler,
        quotas: ClientQuotas,
        now_ns: Callable[[], int],
        on_throttled: Callable[[int, int], None],
    ) -> None:
        """`on_throttled` is called with the API's key and the throttle time of each response."""
        self._requests = requests
        self._quotas = quotas
        self._now_ns = now_ns
        self._on_throttled = on_throttled

    def handle(
        self, frame: memoryview, connection: Connection
    ) -> ResponseParts | PendingResponse | Awaitable[ResponseParts]:
        charge = self._charge(frame, connection)
        if charge is None:
            return self._requests.handle(frame, connection)
        api_key = _api_key(frame)
        if isinstance(charge, ProduceCharge):
            charge.spend(len(frame))
        session = connection.session
        session.quota = charge

        def settled(response: ResponseParts) -> ResponseParts:
            session.quota = UNLIMITED
            if charge.throttle_time_ms:
                self._on_throttled(api_key, charge.throttle_time_ms)
                connection.mute(charge.throttle_time_ms / 1000)
            return response

        outcome = self._requests.handle(frame, connection)
        if outcome is None or isinstance(outcome, list):
            return settled(outcome)
        if isinstance(outcome, PendingResponse):
            finish = outcome.finish

            def finish_charged(done: "asyncio.Future[Any]") -> ResponseParts:
                # Another request may have been handled meanwhile, with its own charge.
                session.quota = charge
                return settled(finish(done))

            is_appended = outcome.is_appended and not charge.throttle_time_ms
            return outcome._replace(finish=finish_charged, is_appended=is_appended)
        return _later(outcome, settled)

    def gather(self, frame: memoryview, connection: Connection) -> bool:
        return self._is_free(frame, connection) and self._requests.gather(frame, connection)

    def gather_silent(self, frame: memoryview, connection: Connection) -> bool:
        return self._is_free(frame, connection) and self._requests.gather_silent(frame, connection)

    def _is_free(self, frame: memoryview, connection: Connection) -> bool:
        """Whether the request is neither charged nor has to wait for an earlier one."""
        return not connection.is_muted and self._charge(frame, connection) is None

    def _charge(
        self, frame: memoryview, connection: Connection
    ) -> ProduceCharge | FetchCharge | None:
        key = QUOTA_OF_API.get(_api_key(frame))
        if key is None:
            return None
        user = connection.session.principal.name
        bucket = self._quotas.find(key, user, _client_id(frame), self._now_ns())
        if bucket is None:
            return None
        if key == PRODUCER_BYTE_RATE:
            return ProduceCharge(bucket, self._now_ns)
        return FetchCharge(bucket, self._now_ns)


async def _later(
    coming: Awaitable[ResponseParts], settled: Callable[[ResponseParts], ResponseParts]
) -> ResponseParts:
    return settled(await coming)


def _api_key(frame: memoryview) -> int:
    return int.from_bytes(frame[:2], "big")


def _client_id(frame: memoryview) -> str | None:
    """None also if it cannot be read: then the request is refused, whoever has sent it."""
    begin = _CLIENT_ID_AT + 2
    length = int.from_bytes(frame[_CLIENT_ID_AT:begin], "big", signed=True)
    if length < 0:
        return None
    return bytes(frame[begin : begin + length]).decode(errors="replace")
