"""Checks of a pipeline command's arguments: the pipeline, its topic, options and folder."""

import os
from collections.abc import Iterable
from contextlib import suppress

from ottla.cli.shared.connect import run_with_cluster
from ottla.cli.shared.name_suggestions import no_such, with_suggestion
from ottla.cli.shared.options import TIMEOUT_S_DEFAULT
from ottla.client.admin.cluster import Admin
from ottla.client.errors import ClientError, Refused
from ottla.client.routing.router import Router
from ottla.spark.option_table import find_option, option_names
from ottla.spark.pipelines.catalogue import PIPELINES, Pipeline


def find_pipeline(name: str) -> Pipeline:
    """The pipeline of this name. Failure."""
    pipeline = PIPELINES.get(name)
    if pipeline is None:
        raise no_such("pipeline", name, PIPELINES, "`ottla pipeline list`")
    return pipeline


def check_options(names: Iterable[str]) -> None:
    """Failure if one is not an option of our source."""
    for name in names:
        if find_option(name) is None:
            raise no_such("option", name, option_names(), "docs/spark-options.md")


def check_topic(name: str, bootstrap: str) -> None:
    """Failure if a cluster that responds lacks the topic. Spark reports all other errors.

    Only for pipelines without source options: a cluster may be unreachable without them.
    """

    async def check(router: Router) -> None:
        with suppress(ClientError):
            (found,) = (await Admin(router).describe_topics([name])).values()
            if isinstance(found, Refused):
                raise await with_suggestion(found, router)

    run_with_cluster(bootstrap, TIMEOUT_S_DEFAULT, check)


def folder_path(text: str) -> str:
    """The path for Spark's nodes: absolute, unless it names its file system."""
    return text.rstrip("/") if "://" in text else os.path.abspath(text)
