"""How much is tried: a modest, repeatable amount by default, more where the environment asks.

HYPOTHESIS_PROFILE=soak   many more examples, new ones each time
OTTLA_SEEDS=20000         that many seeds of each simulation
OTTLA_SEEDS_FROM=5000     without the seeds before, to continue a run that was ended
OTTLA_SEED=123            this one seed alone, to replay a failure
OTTLA_MUTANT_SEEDS=200    that many seeds, at most, to find each bug planted in a cluster
OTTLA_FORGERIES=350       that many logs of forged batches for each kind of topic
MODEL_DEPTH=8             that many events in every run of the partition model
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

# How fast examples come is the machine's affair.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", UNHURRIED, derandomize=True, max_examples=100)
settings.register_profile("soak", UNHURRIED, max_examples=5_000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)
if PROFILE == "default":
    # Hypothesis also tries constants of the modules that are loaded so far, and these are others in
    # every order and distribution of tests: an example that is to come again cannot be one of them.
    providers._get_local_constants = Constants

# A broker's settings that whoever runs the tests has set are not those of the brokers in tests.
_OF_TESTS = ("SEED", "SEEDS", "SEEDS_FROM", "MUTANT_SEEDS", "FORGERIES")
for _name in [name for name in os.environ if name.startswith("OTTLA_")]:
    if _name.removeprefix("OTTLA_") not in _OF_TESTS:
        del os.environ[_name]
# Whatever a test asks by HTTP is on this machine, where no proxy would find it.
os.environ["no_proxy"] = "127.0.0.1,localhost"

SEEDS_PER_BLOCK = 100


@pytest.fixture(scope="session", autouse=True)
def interrupts() -> None:
    """Processes that tests start can be interrupted, also where these run in the background.

    A shell lets what it runs there ignore interrupts, and so would all that is started from there.
    """
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "seeds(count, block=100): a simulation that is given `seeds`, `count` of them by default",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A simulation's seeds come in blocks, so that several processes can share them."""
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is None:
        return
    single = os.environ.get("OTTLA_SEED")
    if single is not None:
        blocks = [range(int(single), int(single) + 1)]
    else:
        count = int(os.environ.get("OTTLA_SEEDS", marker.args[0]))
        begin = int(os.environ.get("OTTLA_SEEDS_FROM", "0"))
        size = marker.kwargs.get("block", SEEDS_PER_BLOCK)
        blocks = [range(first, min(first + size, count)) for first in range(begin, count, size)]
    metafunc.parametrize("seeds", blocks, ids=[f"{block[0]}-{block[-1]}" for block in blocks])
