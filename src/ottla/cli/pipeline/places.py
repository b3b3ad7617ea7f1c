"""Which pipeline is meant, and which folder."""

import os

from ottla.cli.failure import ExitCode, Failure
from ottla.spark.pipelines.catalogue import PIPELINES, Pipeline


def known_pipeline(name: str) -> Pipeline:
    """The pipeline of this name. Failure."""
    pipeline = PIPELINES.get(name)
    if pipeline is None:
        raise Failure(
            f"there is no pipeline {name}",
            advice="`ottla pipeline list` shows what there is",
            exit_code=ExitCode.NOT_FOUND,
        )
    return pipeline


def folder_path(text: str) -> str:
    """As Spark's nodes have to be told: absolute, unless it names its file system already."""
    return text.rstrip("/") if "://" in text else os.path.abspath(text)
