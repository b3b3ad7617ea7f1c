"""A broker's current settings: those it was started with, and the changes by clients.

Also derives the rules of the broker's parts from the settings.
"""

from collections.abc import Callable

from ottla.broker.net.connections import ConnectionLimits
from ottla.metadata.configs import broker_settings
from ottla.metadata.image import Image
from ottla.metadata.records import Config
from ottla.metadata.store import Entry
from ottla.metadata.values import ResourceKind
from ottla.replication.housekeeping.cleanable_part import CleanerRules
from ottla.replication.housekeeping.tick import TickRules
from ottla.settings.broker import BrokerSettings
from ottla.settings.table import network, node, records, replication, retention, segments

SettingsListener = Callable[[BrokerSettings], None]


class DynamicSettings:
    """Follows the metadata log, and calls listeners with the new settings after each change."""

    def __init__(self, initial: BrokerSettings) -> None:
        self.current = initial
        self._initial = initial
        self._listeners: list[SettingsListener] = []

    def subscribe(self, listener: SettingsListener) -> None:
        """Calls the listener after each later change."""
        self._listeners.append(listener)

    def load(self, image: Image) -> None:
        """Takes the settings of the image."""
        self.current = broker_settings(image, self._initial[node.NODE_ID], self._initial)

    def follow(self, image: Image, entry: Entry) -> None:
        """Takes the settings that an entry of the metadata log changed."""
        if any(_is_broker_config(record) for record in entry.records):
            self.load(image)
            for listener in self._listeners:
                listener(self.current)


def _is_broker_config(record: object) -> bool:
    return isinstance(record, Config) and record.kind is ResourceKind.BROKER


def connection_limits(settings: BrokerSettings) -> ConnectionLimits:
    return ConnectionLimits(
        frame_bytes_max=settings[network.SOCKET_REQUEST_MAX_BYTES],
        queued_bytes_max=settings[network.QUEUED_MAX_REQUEST_BYTES],
        unsent_bytes_max=settings[network.REPLIES_UNSENT_MAX_BYTES],
        connections_max=settings[network.MAX_CONNECTIONS],
        connections_max_per_ip=settings[network.MAX_CONNECTIONS_PER_IP],
        idle_ms_max=settings[network.CONNECTIONS_MAX_IDLE_MS],
    )


def cleaner_rules(settings: BrokerSettings) -> CleanerRules:
    return CleanerRules(
        is_enabled=settings[retention.LOG_CLEANER_ENABLE],
        backoff_ms=settings[retention.LOG_CLEANER_BACKOFF_MS],
        key_map_bytes_max=settings[retention.LOG_CLEANER_DEDUPE_BUFFER_SIZE],
        key_map_load_factor=settings[retention.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR],
        window_bytes=settings[retention.LOG_CLEANER_IO_BUFFER_SIZE],
        bytes_per_second=settings[retention.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND],
    )


def tick_rules(settings: BrokerSettings) -> TickRules:
    return TickRules(
        retention_interval_ms=settings[retention.LOG_RETENTION_CHECK_INTERVAL_MS],
        checkpoint_interval_ms=settings[segments.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS],
        high_watermark_interval_ms=settings[
            replication.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS
        ],
        producer_expiration_ms=settings[records.PRODUCER_ID_EXPIRATION_MS],
        disk_reserve_bytes=settings[segments.DISK_RESERVE_BYTES],
    )
