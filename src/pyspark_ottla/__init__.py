"""Spark looks for packages named `pyspark_*`, and finds the format `ottla` in this one."""

from ottla.spark.source import OttlaSource as DefaultSource

__all__ = ["DefaultSource"]
