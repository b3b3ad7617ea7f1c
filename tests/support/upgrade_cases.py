"""The recorded cases of `tests/vectors/upgrade`: files that a version of Ottla wrote."""

import json
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

UPGRADE = Path(__file__).parents[1] / "vectors" / "upgrade"


class UpgradeCase(NamedTuple):
    """One archive, and the content that the version which wrote it read from it."""

    label: str
    name: str

    def __str__(self) -> str:
        return f"{self.label}-{self.name}"

    @property
    def archive(self) -> Path:
        return UPGRADE / self.label / f"{self.name}.tar.gz"

    @property
    def expected_path(self) -> Path:
        return UPGRADE / self.label / f"{self.name}.expected.json"

    @property
    def expected(self) -> Any:
        return json.loads(self.expected_path.read_text())

    def unpack(self, target: Path) -> Path:
        with tarfile.open(self.archive) as archive:
            archive.extractall(target, filter="data")
        return target


def recorded(*names: str) -> list[UpgradeCase]:
    """These cases of every version. Each name must have been recorded by some version."""
    found = [
        UpgradeCase(archive.parent.name, name)
        for name in names
        for archive in sorted(UPGRADE.glob(f"*/{name}.tar.gz"))
    ]
    missing = set(names) - {case.name for case in found}
    if missing:
        raise FileNotFoundError(f"no version has recorded {sorted(missing)} in {UPGRADE}")
    return found
