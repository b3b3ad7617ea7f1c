"""The clusters that a test runs against."""

from enum import StrEnum

import pytest


class Cluster(StrEnum):
    """The implementation of the broker."""

    OTTLA = "ottla"
    KAFKA = "kafka"


def on(*clusters: Cluster) -> pytest.MarkDecorator:
    """Runs a test, or all of a module, once with each of these."""
    return pytest.mark.parametrize("cluster", clusters, indirect=True)


on_both = on(*Cluster)
