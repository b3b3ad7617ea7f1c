"""Which pipelines there are, and that each is whole."""

from itertools import islice

import pytest

from ottla.spark.pipelines.catalogue import PIPELINES, Pipeline, generate_of, main_of


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=list(PIPELINES))
def test_every_pipeline_can_be_started_and_has_records(pipeline: Pipeline) -> None:
    assert callable(main_of(pipeline))
    assert len(list(islice(generate_of(pipeline)(1, 1_767_268_800_000, 1.0), 10))) == 10
