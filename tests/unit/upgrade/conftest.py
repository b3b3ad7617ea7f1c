"""Brokers on directories that earlier versions wrote."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.support.upgrade_cases import UpgradeCase
from tests.support.upgrade_settings import OPENING


@pytest.fixture
def broker(case: UpgradeCase, tmp_path: Path) -> Iterator[Broker]:
    """The present version on the directory. Each module has the fixture `case`."""
    with Broker(OPENING, directory=str(case.unpack(tmp_path))) as running:
        yield running
