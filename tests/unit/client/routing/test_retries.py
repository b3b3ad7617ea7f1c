"""Which errors are retried, for how long, and after which pauses."""

import pytest

from ottla.client.errors import ClientError, ConnectionLost, Refused
from ottla.client.options import ClientOptions
from ottla.client.routing.retries import Backoff
from ottla.errors import ErrorCode
from tests.sim.seams.entropy import SimEntropy

LOST = ConnectionLost("it is gone")
DENIED = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "orders")


@pytest.mark.parametrize(
    ("error", "waited_ms", "waits"),
    [
        (LOST, 0, True),
        (LOST, 999, False),
        (DENIED, 0, False),
        (Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders"), 0, True),
        (Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders"), 299, False),
    ],
)
def test_retry_time_depends_on_the_error(error: ClientError, waited_ms: int, waits: bool) -> None:
    options = ClientOptions(default_api_timeout_ms=1000, unknown_topic_grace_ms=300)
    pause_ms = Backoff(options, SimEntropy(0)).pause_after(error, waited_ms)
    assert (pause_ms is not None) == waits


def test_pauses_double_up_to_the_maximum_with_a_jitter_of_a_fifth() -> None:
    options = ClientOptions(
        retry_backoff_ms=100, retry_backoff_max_ms=1_000, default_api_timeout_ms=1_000_000
    )
    backoff = Backoff(options, SimEntropy(1))
    for pause_ms in (100, 200, 400, 800, *[1_000] * 30):
        found = backoff.pause_after(LOST, 0)
        assert found is not None
        assert pause_ms * 0.8 <= found <= pause_ms * 1.2
