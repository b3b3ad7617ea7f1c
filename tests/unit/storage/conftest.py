"""A workbench on the real disk, and one on the simulated."""

from pathlib import Path

import pytest

from ottla.seams.files import RealFiles
from tests.sim.seams.disk import SimDisk
from tests.support.storage.workbench import Workbench


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(0)


@pytest.fixture
def sim_bench(disk: SimDisk) -> Workbench:
    return Workbench(disk.process(), "/t-0")


@pytest.fixture(params=["real", "simulated"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Workbench:
    if request.param == "real":
        return Workbench(RealFiles(), f"{tmp_path}/t-0")
    return Workbench(SimDisk(0).process(), "/t-0")
