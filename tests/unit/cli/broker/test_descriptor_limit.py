"""The number of connections follows from the descriptors that the logs leave."""

import resource
from collections.abc import Iterator

import pytest

from ottla.cli.broker.descriptor_limit import (
    CONNECTIONS_MIN,
    SPARE_DESCRIPTORS,
    connections_max,
    raise_limit,
)
from ottla.settings.sources import load


@pytest.fixture
def few_descriptors() -> Iterator[int]:
    """This process may have few open, and could ask for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_is_raised_to_the_hard_limit(few_descriptors: int) -> None:
    assert raise_limit() == few_descriptors


@pytest.mark.parametrize(
    ("descriptors_max", "expected"),
    [(10_000, 10_000 - 2 * 100 - SPARE_DESCRIPTORS), (200, CONNECTIONS_MIN)],
)
def test_each_log_directory_keeps_its_share(descriptors_max: int, expected: int) -> None:
    given = {"log.dirs": "/one,/two", "ottla.files.open.max": "100"}
    settings = load(given=given, environment={}, file=None)
    assert connections_max(settings, descriptors_max) == expected
