"""Logs and counts the events of coordinator shards."""

from ottla.broker.event_log import Logger
from ottla.metrics.meters import CoordinatorMeter


class LoggingShardListener:
    """The `ShardListener` of one coordinator; `name` is that of its subject, as in "group"."""

    def __init__(self, name: str, logger: Logger, meter: CoordinatorMeter) -> None:
        self._name = name
        self._logger = logger
        self._meter = meter

    def loaded(self, partition: str, took_ms: int, longest_stall_ns: int) -> None:
        self._meter.note_load(took_ms, longest_stall_ns)
        self._logger.debug(f"{self._name}s loaded", partition=partition, took_ms=took_ms)

    def record_skipped(self, partition: str, offset: int, error: Exception) -> None:
        self._logger.warning(
            f"{self._name} record skipped",
            repeats_of=partition,
            partition=partition,
            offset=offset,
            error=str(error),
        )

    def failed(self, partition: str, error: Exception) -> None:
        self._meter.failures += 1
        self._logger.error(
            f"{self._name} coordinator failed",
            repeats_of=partition,
            partition=partition,
            error=str(error),
        )
