from types import ModuleType

import pytest

from tests.support.native_modules import KINDS, load


@pytest.fixture(params=KINDS)
def scan(request: pytest.FixtureRequest) -> ModuleType:
    return load("scan", request.param)


@pytest.fixture(params=KINDS)
def build(request: pytest.FixtureRequest) -> ModuleType:
    return load("build", request.param)


@pytest.fixture(params=KINDS)
def produce(request: pytest.FixtureRequest) -> ModuleType:
    return load("produce", request.param)
