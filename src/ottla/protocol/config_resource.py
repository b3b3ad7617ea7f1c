"""What has settings, as DescribeConfigs and AlterConfigs name it."""

from enum import IntEnum


class ResourceType(IntEnum):
    """Kafka's numbers of what has settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
