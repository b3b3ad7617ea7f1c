"""The topic settings that the log itself uses."""

from dataclasses import dataclass

from ottla.storage.log.retention import RollRules

UNLIMITED = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Kafka's names, without the dots, and Kafka's defaults and units."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    flush_messages: int = UNLIMITED
    flush_ms: int = UNLIMITED
    # Recent batches of the active segment whose positions are kept in memory.
    tail_batches_max: int = 1024
    # Idempotent producers that a log keeps state of.
    producers_max: int = 100_000

    @property
    def roll_rules(self) -> RollRules:
        return RollRules(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            index_bytes=self.segment_index_bytes,
        )
