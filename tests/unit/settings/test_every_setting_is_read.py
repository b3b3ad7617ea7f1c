"""Every setting in the table is read by some code outside of it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from ottla.settings.table import AREAS, constants
from tests.support.paths import ROOT

SOURCE = ROOT / "src" / "ottla"
TABLE = "ottla.settings.table"

# Nothing has to read these: no other value than the default is taken.
ONLY_DEFAULT = {
    name for area in AREAS for name, each in constants(area).items() if each.unsupported_reason
}


def settings_read(path: Path) -> Iterator[str]:
    """The constants that a file imports and then uses, by themselves or as `area.CONSTANT`."""
    tree = ast.parse(path.read_text())
    imported = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(TABLE)
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in imported:
                yield imported[name]
            case ast.Attribute(value=ast.Name(id=area), attr=name) if area in imported:
                yield name


def test_a_use_counts_and_an_import_alone_does_not(tmp_path: Path) -> None:
    source = tmp_path / "reader.py"
    source.write_text(
        "from ottla.settings.table import network\n"
        "from ottla.settings.table.node import LOG_DIRS, NODE_ID as ID\n"
        "from elsewhere import LISTENERS\n"
        "def read(settings):\n"
        "    return settings[ID], settings[network.MAX_CONNECTIONS], LISTENERS\n"
    )
    assert set(settings_read(source)) == {"NODE_ID", "network", "MAX_CONNECTIONS"}


def test_every_setting_is_read() -> None:
    read = {
        name
        for path in SOURCE.rglob("*.py")
        if SOURCE / "settings" / "table" not in path.parents
        for name in settings_read(path)
    }
    every = {name for area in AREAS for name in constants(area)}
    assert every - read - ONLY_DEFAULT == set()
