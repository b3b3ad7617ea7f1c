"""The data source of the format `ottla`, for batch and streaming queries.

Spark imports this module in several processes; only the process that reads imports Arrow.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.spark.failures import warn
from ottla.spark.option_table import Mode
from ottla.spark.options import BadOption, SourceOptions, read_options
from ottla.spark.schema import topic_schema

if TYPE_CHECKING:
    from ottla.spark.reader import BatchReader
    from ottla.spark.stream_reader import StreamReader


class OttlaSource(DataSource):
    """Spark finds it without registration, through the package `pyspark_ottla`."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """Called by `load`, before Spark knows whether the query is a batch or a stream.

        Options that are invalid for both are refused here.
        """
        failures = []
        for mode in Mode:
            try:
                options = read_options(self.options, mode)
            except BadOption as error:
                failures.append(error)
        if len(failures) == len(Mode):
            raise failures[0]
        return topic_schema(include_headers=options.include_headers)

    def reader(self, schema: StructType) -> "BatchReader":
        from ottla.spark.reader import BatchReader, FilteringBatchReader

        options = self._read_options(Mode.BATCH)
        return (FilteringBatchReader if options.push_filters else BatchReader)(options, schema)

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: N802 - Spark's name
        from ottla.spark.stream_reader import StreamReader

        return StreamReader(self._read_options(Mode.STREAM), schema)

    def _read_options(self, mode: Mode) -> SourceOptions:
        options = read_options(self.options, mode)
        for warning in options.warnings:
            warn(warning)
        return options
