"""The house stays tidy: what a reader is promised of every file, checked for every file."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))
LINES_MAX = 600
FUNCTION_LINES_MAX = 80


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("path", SOURCES, ids=names(SOURCES))
def test_a_source_file_says_what_it_is_and_fits_a_reader(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no docstring"
    assert text.count("\n") <= LINES_MAX
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"
    unfinished = re.search(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b", text)
    assert unfinished is None, unfinished


DECISIONS = sorted((ROOT / "src/ottla/metadata/controller").glob("*.py"))


@pytest.mark.parametrize("path", DECISIONS, ids=names(DECISIONS))
def test_the_controllers_decisions_wait_for_nothing(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await), ast.unparse(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
            assert "asyncio" not in imported
            assert "ottla.metadata.publisher" not in imported


def test_the_page_of_gaps_says_what_the_modules_say() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "gaps.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_shows_the_two_commands_and_the_makefile_has_them() -> None:
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for target in ("up", "test"):
        assert f"$ make {target}" in readme
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_links_in_the_documentation_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
