"""The duration of a query's jobs, without Spark's planning and starting."""

import itertools

from pyspark.sql import SparkSession

_numbers = itertools.count(1)


class JobWatch:
    """Watches the jobs that this thread runs from now on."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._group = f"watched-{next(_numbers)}"
        self._context.setJobGroup(self._group, self._group)

    def seconds(self) -> float:
        """From the submission of the first job to the end of the last; all must have ended."""
        java = self._context._jsc.sc()
        # Job events reach the status store by messages that may still be in flight.
        java.listenerBus().waitUntilEmpty()
        numbers = self._context.statusTracker().getJobIdsForGroup(self._group)
        jobs = [java.statusStore().job(number) for number in numbers]
        begin_ms = min(job.submissionTime().get().getTime() for job in jobs)
        end_ms = max(job.completionTime().get().getTime() for job in jobs)
        return float(end_ms - begin_ms) / 1e3
