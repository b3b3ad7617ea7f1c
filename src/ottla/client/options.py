"""The options of a client, under Kafka's names."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """A client's id, timeouts and limits."""

    client_id: str = "ottla"
    # From connecting to the response to ApiVersions.
    socket_connection_setup_timeout_ms: int = 10_000
    # From a request to its response.
    request_timeout_ms: int = 30_000
    # For all attempts of one request together.
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    max_in_flight_requests_per_connection: int = 5
    # The largest accepted response.
    receive_message_max_bytes: int = 100_000_000
    # The time for which an unknown topic is retried: brokers learn of a new topic with a delay.
    unknown_topic_grace_ms: int = 1_500
