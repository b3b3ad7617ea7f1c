"""A pipeline is killed again and again, Python and Java at once: its rows are exact.

KILLS=30 tries that many times.
"""

import os
import random
import time
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipelines.trending.generate import generate
from tests.support.spark.pipelines.exactness import assert_exact, contents, send
from tests.support.spark.pipelines.process import PipelineRun
from tests.support.spark.topics import Topics

KILLS = int(os.environ.get("KILLS", "3"))
SEED = 11
NOON_MS = 1_767_268_800_000
PARTITIONS = 3
BATCH_RECORDS = 300
# The new batches per run, and the most batches that a run reports before it is killed. Each of its
# two queries processes the new ones, wherever the run before has ended.
BATCHES_PER_RUN = 2
BATCHES_BEFORE_KILL_MAX = 3
KILL_DELAY_S_MAX = 2.0


@pytest.mark.timeout(600 + 300 * KILLS)
def test_the_output_of_a_killed_pipeline_is_exact_after_it_resumes(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    topics.make(topic, PARTITIONS)
    records = generate(SEED, NOON_MS, 1.2)

    def send_batches(count: int) -> None:
        send(topics.servers, topic, list(islice(records, count * BATCH_RECORDS)))

    def start(*arguments: str) -> PipelineRun:
        return PipelineRun(topics.servers, topic, tmp_path, "--master", "local[2]", *arguments)

    send_batches(4)
    for _ in range(KILLS):
        send_batches(BATCHES_PER_RUN)
        # Without an end, so that it is never over before it is killed.
        run = start("--option", f"maxOffsetsPerTrigger={BATCH_RECORDS}")
        try:
            run.wait_for_batches(chance.randrange(BATCHES_BEFORE_KILL_MAX + 1))
            # No moment of a batch is spared.
            time.sleep(chance.uniform(0, KILL_DELAY_S_MAX))
            run.kill()
        finally:
            run.close()
    last = start("--until-end")
    try:
        assert last.wait() == 0, last.said
    finally:
        last.close()
    found = contents(topics.servers, topic, PARTITIONS)
    assert_exact(spark, tmp_path, topic, found, stops=KILLS)
