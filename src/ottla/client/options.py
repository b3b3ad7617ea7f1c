"""What a client can be told, under Kafka's own names."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How a client names itself, how long it waits, and what it holds at most."""

    client_id: str = "ottla"
    # From dialling to the moment when it is known what the broker speaks.
    socket_connection_setup_timeout_ms: int = 10_000
    # From a request to its answer.
    request_timeout_ms: int = 30_000
    # For all attempts of one question together.
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    max_in_flight_requests_per_connection: int = 5
    # The largest answer that is taken.
    receive_message_max_bytes: int = 100_000_000
    # How long a topic that a broker does not know may still turn up: one that was made a moment ago
    # is not known everywhere at once.
    unknown_topic_grace_ms: int = 1_500
