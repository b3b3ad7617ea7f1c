"""What a pipeline's command names: the pipeline, its topic, its options, its folder."""

import os
from collections.abc import Iterable
from contextlib import suppress

from ottla.cli.shared.connect import reach
from ottla.cli.shared.name_suggestions import in_place_of, no_such
from ottla.cli.shared.options import TIMEOUT_S_DEFAULT
from ottla.client.admin.cluster import Admin
from ottla.client.errors import ClientError, Refused
from ottla.client.routing.router import Router
from ottla.spark.option_table import find_option, option_names
from ottla.spark.pipelines.catalogue import PIPELINES, Pipeline


def known_pipeline(name: str) -> Pipeline:
    """The pipeline of this name. Failure."""
    pipeline = PIPELINES.get(name)
    if pipeline is None:
        raise no_such("pipeline", name, PIPELINES, "`ottla pipeline list`")
    return pipeline


def check_options(names: Iterable[str]) -> None:
    """Failure if one is no option of our source."""
    for name in names:
        if find_option(name) is None:
            raise no_such("option", name, option_names(), "docs/spark-options.md")


def check_topic(name: str, bootstrap: str) -> None:
    """Failure if a cluster that answers has no such topic; else Spark says what is wrong.

    For a pipeline without options of its own: those may be what it takes to get an answer.
    """

    async def look(router: Router) -> None:
        with suppress(ClientError):
            (found,) = (await Admin(router).describe_topics([name])).values()
            if isinstance(found, Refused):
                raise await in_place_of(found, router)

    reach(bootstrap, TIMEOUT_S_DEFAULT, look)


def folder_path(text: str) -> str:
    """As Spark's nodes have to be told: absolute, unless it names its file system already."""
    return text.rstrip("/") if "://" in text else os.path.abspath(text)
