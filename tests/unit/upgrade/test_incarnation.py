"""The incarnation file of an earlier version says how the broker's last life ended."""

from pathlib import Path

import pytest

from ottla.metadata.incarnation import SavedIncarnation, read_incarnation
from ottla.seams.files import RealFiles
from tests.support.upgrade_cases import UpgradeCase, recorded

CASES = recorded("data-clean", "data-killed", "transactions-killed")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_incarnation_of_an_earlier_version_is_read(case: UpgradeCase, tmp_path: Path) -> None:
    expected = {"unserved": [], **case.expected["incarnation"]}
    unserved = tuple(expected.pop("unserved"))

    found = read_incarnation(RealFiles(), str(case.unpack(tmp_path)))

    assert found == SavedIncarnation(**expected, unserved=unserved)
    assert found.clean is (case.name == "data-clean")
