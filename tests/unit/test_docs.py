"""Every file, package and module that a documentation page names in backticks exists."""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from ottla.settings.table import BROKER_SETTINGS
from tests.support.paths import ROOT

PACKAGE = ROOT / "src" / "ottla"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "vectors" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"\w[\w.-]*(/[\w.-]+)*/?")
DOTTED_NAME = re.compile(r"(ottla|native|protocol|storage)(\.\w+)+")


@cache
def package_directories() -> list[Path]:
    found = [path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    return [PACKAGE, *found]


@cache
def python_files() -> set[str]:
    tops = ("src", "tests", "tools", "benchmarks", "examples")
    return {path.name for top in tops for path in (ROOT / top).rglob("*.py")}


def path_exists(name: str, page: Path) -> bool | None:
    """Whether a path like `broker/net/connections` exists; None if it is no path of the repository.

    Pages write paths from the root, from `src/ottla`, from a package inside it or from their own
    directory, and may leave out `.py`.
    """
    first = name.partition("/")[0]
    bases = [ROOT, page.parent, *package_directories()]
    candidates = [base / name for base in bases if (base / first).is_dir()]
    if not candidates:
        return None
    return any(path.exists() or path.with_suffix(".py").exists() for path in candidates)


def dotted_name_exists(name: str) -> bool:
    """Whether `ottla.spark.read`, or `native.scan` below `ottla`, is a module or an attribute."""
    parts = name.split(".") if name.startswith("ottla.") else ["ottla", *name.split(".")]
    found: object = importlib.import_module(parts[0])
    for depth, part in enumerate(parts[1:], start=2):
        if not hasattr(found, part):
            try:
                importlib.import_module(".".join(parts[:depth]))
            except ModuleNotFoundError:
                return False
        found = getattr(found, part)
    return True


def missing_names(text: str, page: Path) -> list[str]:
    missing = []
    for name in IN_BACKTICKS.findall(CODE_BLOCK.sub("", text)):
        if PATH.fullmatch(name) and "/" in name:
            exists = path_exists(name, page)
        elif PATH.fullmatch(name) and name.endswith(".py"):
            exists = name in python_files()
        elif DOTTED_NAME.fullmatch(name) and name not in BROKER_SETTINGS:
            exists = dotted_name_exists(name)
        else:
            continue
        if exists is False:
            missing.append(name)
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_files_and_modules_that_exist(page: Path) -> None:
    assert missing_names(page.read_text(), page) == []


def test_names_of_files_and_modules_that_do_not_exist_are_found() -> None:
    page = ROOT / "docs" / "page.md"
    stale = "storage/log/gone", "src/ottla/gone.py", "handlers/gone", "test_gone.py"
    stale += "native.gone", "ottla.spark.gone", "storage.log.log.Gone"
    kept = "storage/log/log", "src/ottla/errors.py", "handlers/fetch", "docs/decisions/"
    kept += "native.scan.survey", "ottla.spark.read", "ottla.files.open.max", "/health/ready"
    text = "\n".join(f"`{name}`" for name in (*stale, *kept))
    assert missing_names(text, page) == list(stale)
