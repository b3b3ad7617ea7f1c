"""The incarnation file of an earlier version says how the broker's last life ended."""

from pathlib import Path

import pytest

from ottla.metadata.incarnation import SavedIncarnation, id_of_epoch, read_incarnation
from ottla.seams.files import RealFiles
from tests.support.upgrade_cases import UpgradeCase, recorded

CASES = recorded("data-clean", "data-killed", "transactions-killed")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_incarnation_of_an_earlier_version_is_read(case: UpgradeCase, tmp_path: Path) -> None:
    expected = case.expected["incarnation"]

    found = read_incarnation(RealFiles(), str(case.unpack(tmp_path)))

    assert found == SavedIncarnation(
        id_of_epoch(expected["broker_epoch"]),
        expected["boot_id"],
        expected["clean"],
        tuple(map(id_of_epoch, expected.get("unserved", ()))),
    )
    assert found.clean is (case.name == "data-clean")
