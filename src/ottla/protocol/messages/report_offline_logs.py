"""ReportOfflineLogs (20000) v0-0. A broker tells the controller which of its logs are offline. Not
an API of Kafka, whose brokers report it in heartbeats. Only between brokers. Gaps: none.
"""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import Uuid, i16, i32, i64


@struct
class Topic:
    topic_id: Uuid
    partition_indexes: tuple[i32, ...]


@request(key=20_000, versions=(0, 0), flexible=0)
class ReportOfflineLogsRequest:
    broker_id: i32
    broker_epoch: i64
    topics: tuple[Topic, ...]


@response(to=ReportOfflineLogsRequest)
class ReportOfflineLogsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    error_message: str | None = None
