"""The settings of a topic that decide whether a leader accepts a batch."""

from dataclasses import dataclass
from functools import cached_property

from ottla.native.admission import BatchChecks
from ottla.protocol.batch import DECOMPRESSED_BYTES_MAX
from ottla.protocol.compression import Codec

UNLIMITED_MS = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class AdmissionRules:
    """The settings of a topic that limit its batches, with Kafka's defaults."""

    message_bytes_max: int = 1_048_588
    timestamp_before_max_ms: int = UNLIMITED_MS
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    log_append_time: bool = False
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    # None: batches keep the compression of their producers.
    codec: Codec | None = None
    compression_level: int | None = None

    @cached_property
    def looks_at_records(self) -> bool:
        """Whether the topic checks keys or old timestamps of records."""
        refuses_old = self.timestamp_before_max_ms != UNLIMITED_MS and not self.log_append_time
        return self.compacted or refuses_old

    @cached_property
    def native_checks(self) -> BatchChecks | None:
        """The native checks, where batches are stored as they are if their records can be read."""
        if self.looks_at_records or self.log_append_time or self.codec is not None:
            return None
        return BatchChecks(
            self.message_bytes_max, self.timestamp_after_max_ms, self.decompressed_bytes_max
        )

    def changes_codec(self, codec: int) -> bool:
        return self.codec is not None and self.codec != codec

    def may_need_decompression(self, codec: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether such a batch has to be decompressed, or compressed, before it is appended."""
        if self.changes_codec(codec):
            return True
        if codec == Codec.NONE:
            return False
        latest_ms = now_ms + self.timestamp_after_max_ms
        return self.looks_at_records or (max_timestamp > latest_ms and not self.log_append_time)
