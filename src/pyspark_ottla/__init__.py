"""Registers the format `ottla`: Spark searches packages named `pyspark_*` for data sources."""

from ottla.spark.source import OttlaSource as DefaultSource

__all__ = ["DefaultSource"]
