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
from tests.spark.pipelines.exactness import assert_exact, contents, send
from tests.spark.pipelines.process import PipelineRun
from tests.spark.topics import Topics

KILLS = int(os.environ.get("KILLS", "3"))
SEED = 11
NOON_MS = 1_767_268_800_000
PARTITIONS = 3
BATCH_RECORDS = 300
# Of both queries together. A run must not end before it is killed.
BATCHES_BEFORE_KILL_MAX = 3
KILL_DELAY_S_MAX = 2.0


@pytest.mark.timeout(300 + 240 * KILLS)
def test_what_a_killed_pipeline_has_written_is_exact_once_it_has_gone_on(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    topics.make(topic, PARTITIONS)
    amount = BATCH_RECORDS * (4 + 2 * KILLS)
    send(topics.servers, topic, list(islice(generate(SEED, NOON_MS, 1.2), amount)))
    records = contents(topics.servers, topic, PARTITIONS)

    def start(*arguments: str) -> PipelineRun:
        local = ("--master", "local[2]", "--until-end")
        return PipelineRun(topics.servers, topic, tmp_path, *local, *arguments)

    for _ in range(KILLS):
        run = start("--option", f"maxOffsetsPerTrigger={BATCH_RECORDS}")
        try:
            run.wait_for_batches(chance.randrange(BATCHES_BEFORE_KILL_MAX + 1))
            # No moment of a batch is spared.
            time.sleep(chance.uniform(0, KILL_DELAY_S_MAX))
            run.kill()
        finally:
            run.close()
    last = start()
    try:
        assert last.wait() == 0, last.said
    finally:
        last.close()
    assert_exact(spark, tmp_path, topic, records)
