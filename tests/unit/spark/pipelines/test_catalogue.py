"""The list of pipelines, and that each is complete."""

from itertools import islice

import pytest

from ottla.spark.pipelines.catalogue import PIPELINES, Pipeline, pipeline_generator, pipeline_main


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=list(PIPELINES))
def test_every_pipeline_can_be_started_and_has_records(pipeline: Pipeline) -> None:
    assert callable(pipeline_main(pipeline))
    assert len(list(islice(pipeline_generator(pipeline)(1, 1_767_268_800_000, 1.0), 10))) == 10
