"""The start of a pipeline's queries."""

from typing import cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from ottla.seams.blocking import Blocking
from ottla.spark.pipelines.streams import await_source


class StartingQuery:
    """A query with these status messages; None: it has ended."""

    def __init__(self, *told: str | None) -> None:
        self._told = iter(told)
        self._message: str | None = None

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        self._message = next(self._told)
        return self._message is not None

    @property
    def status(self) -> dict[str, str | None]:
        return {"message": self._message}


class Pauses:
    def __init__(self) -> None:
        self.count = 0

    def pause(self, _pause_ms: int) -> None:
        self.count += 1


@pytest.mark.parametrize(
    ("told", "pauses"),
    [
        (["Initializing StreamExecution", "Initializing sources", "Getting offsets from Ottla"], 2),
        (["Initializing sources", None], 1),
        (["Processing new data"], 0),
        ([None], 0),
    ],
)
def test_the_next_query_is_started_once_one_has_its_source(
    told: list[str | None], pauses: int
) -> None:
    blocking = Pauses()
    await_source(cast("StreamingQuery", StartingQuery(*told)), cast("Blocking", blocking))
    assert blocking.count == pauses
