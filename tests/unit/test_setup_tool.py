"""tools/setup.py: each step runs once, resumes after an interruption, and is announced first."""

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.paths import ROOT

MODULES = ("keys", "scan")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool in a small temporary project, with commands that are recorded and not run."""
    spec = importlib.util.spec_from_file_location("setup_tool", ROOT / "tools" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    native = tmp_path / "src" / "ottla" / "native"
    native.mkdir(parents=True)
    for name in ("__init__", *MODULES):
        (native / f"{name}.py").write_text(f"# {name}\n")
    for name in ("pyproject.toml", "constraints.txt", "setup.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    venv = tmp_path / ".venv"
    for name, path in {
        "ROOT": tmp_path,
        "VENV": venv,
        "BIN": venv / "bin",
        "PYTHON": venv / "bin" / "python",
        "STAMPS": venv / ".steps",
        "SPARK_READY": venv / ".ready-spark",
        "CACHE": tmp_path / ".cache",
        "LOG": tmp_path / ".cache" / "setup.log",
        "NATIVE": native,
        "BUILD": tmp_path / "build" / "native",
    }.items():
        monkeypatch.setattr(tool, name, path)
    monkeypatch.setattr(tool, "uv_indexes", dict)
    monkeypatch.setattr(tool, "spark_in_background", lambda: None)
    (tmp_path / ".cache").mkdir()
    return tool


class Commands:
    """Replaces `run`: records each command and creates the files that it would create."""

    def __init__(self, tool: ModuleType) -> None:
        self.tool = tool
        self.ran: list[str] = []
        self.fails: Callable[[str], bool] = lambda _: False
        # The number of the command that is interrupted.
        self.interrupted_at: int | None = None

    def __call__(self, command: list[Any], **environment: str) -> None:
        text = " ".join(map(str, command))
        self.ran.append(text)
        if len(self.ran) == self.interrupted_at:
            raise KeyboardInterrupt
        if self.fails(text):
            raise self.tool.Failed(text)
        bin_ = self.tool.BIN
        if " -m venv " in text:
            bin_.mkdir(parents=True, exist_ok=True)
            # The check whether pip works succeeds.
            (bin_ / "python").write_text("#!/bin/sh\nexit 0\n")
            (bin_ / "python").chmod(0o755)
        elif text.endswith(" uv"):
            (bin_ / "uv").touch()
        elif "--editable" in text:
            (bin_ / "ottla").touch()
        elif "build_ext" in text:
            assert environment["NATIVE_MODULES"] in MODULES
            library = Path(command[command.index("--build-lib") + 1])
            library.mkdir(parents=True)
            (library / "any.so").write_text(environment["NATIVE_MODULES"])


@pytest.fixture
def commands(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Commands:
    commands = Commands(tool)
    monkeypatch.setattr(tool, "run", commands)
    return commands


def libraries(tool: ModuleType) -> dict[str, str]:
    return {path.name.partition(".")[0]: path.read_text() for path in tool.NATIVE.glob("*.so")}


def test_the_first_line_is_there_before_anything_is_done(
    tool: ModuleType, commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.interrupted_at = 1
    with pytest.raises(KeyboardInterrupt):
        tool.up()
    assert capsys.readouterr().out.startswith("[1/3] Python environment …")


def test_steps_are_numbered_and_timed(
    tool: ModuleType, commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    tool.dev()
    lines = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in lines] == [f"[{number}/5]" for number in range(1, 6)]
    assert all(re.search(r" … [0-9]+\.[0-9] s", line) for line in lines)
    assert libraries(tool) == {name: name for name in MODULES}


def test_a_finished_step_is_not_repeated(tool: ModuleType, commands: Commands) -> None:
    tool.dev()
    commands.ran.clear()
    tool.dev()
    # The compiler probe always runs, and compileall, which skips bytecode that is up to date.
    assert all("probe" in text or "compileall" in text for text in commands.ran)


def test_an_interrupted_set_up_resumes_where_it_stopped(
    tool: ModuleType, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted at each command in turn, it repeats this command and none before it."""
    monkeypatch.setattr(tool.os, "cpu_count", lambda: 1)
    done: list[str] = []
    for _ in range(30):
        commands.ran.clear()
        known = {text for text in done if "probe" not in text and "compileall" not in text}
        new = [0]

        def interrupts(text: str, known: set[str] = known, new: list[int] = new) -> bool:
            assert text not in known, f"done again: {text}"
            if "probe" not in text and "compileall" not in text:
                new[0] += 1
            if new[0] >= 2:
                raise KeyboardInterrupt
            return False

        commands.fails = interrupts
        try:
            tool.dev()
        except KeyboardInterrupt:
            # One command more than the last time succeeded; those after it did not run.
            done += commands.ran[: 1 - new[0]]
        else:
            break
    else:
        pytest.fail("the set-up never ends")
    assert libraries(tool) == {name: name for name in MODULES}


def test_a_changed_module_is_compiled_again_and_no_other(
    tool: ModuleType, commands: Commands
) -> None:
    tool.up()
    (tool.NATIVE / "scan.py").write_text("# other\n")
    (tool.NATIVE / "gone.cpython-311-x86_64-linux-gnu.so").touch()
    commands.ran.clear()
    tool.up()
    (compiled,) = [text for text in commands.ran if "build_ext" in text]
    assert "/scan/" in compiled
    assert libraries(tool).keys() == set(MODULES)


def test_without_a_compiler_no_module_is_left_compiled(
    tool: ModuleType, commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    tool.up()
    assert libraries(tool)
    commands.fails = lambda text: "probe" in text
    capsys.readouterr()
    tool.up()
    assert libraries(tool) == {}
    assert "interpreted, slower but complete" in capsys.readouterr().out
    commands.fails = lambda _: False
    tool.up()
    assert libraries(tool).keys() == set(MODULES)


def test_a_killed_compile_leaves_no_partial_module(tool: ModuleType, commands: Commands) -> None:
    def half(text: str) -> bool:
        if "build_ext" in text:
            library = tool.BUILD / "keys" / "lib"
            library.mkdir(parents=True, exist_ok=True)
            (library / "any.so").write_text("half")
            raise KeyboardInterrupt
        return False

    commands.fails = half
    with pytest.raises(KeyboardInterrupt):
        tool.up()
    assert libraries(tool) == {}
    commands.fails = lambda _: False
    tool.up()
    assert libraries(tool) == {name: name for name in MODULES}


@pytest.mark.parametrize("wrong", ["--constraint constraints.txt uv", "/uv pip "])
def test_pip_installs_if_uv_is_missing_or_fails(
    tool: ModuleType, commands: Commands, wrong: str
) -> None:
    commands.fails = lambda text: wrong in text
    tool.up()
    by_pip = [text for text in commands.ran if "-m pip" in text and "--constraint" in text]
    assert any("uvloop" in text for text in by_pip)
    assert libraries(tool).keys() == set(MODULES)


def test_an_extra_includes_the_extras_that_it_names(tool: ModuleType) -> None:
    wanted = {re.split(r"[^\w-]", requirement)[0] for requirement in tool.requirements("dev")}
    assert {"pyarrow", "pyspark", "pytest", "ruff", "setuptools"} <= wanted
    assert "ottla" not in wanted
    spark = {re.split(r"[^\w-]", requirement)[0] for requirement in tool.requirements("spark")}
    assert spark == {"pyarrow", "pandas", "pyspark"}


def test_an_older_python_is_refused(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(tool.Failed, match=r"Python 3\.11 or newer is needed"):
        tool.main(["up"])


def test_uv_is_pinned_like_everything_else() -> None:
    assert re.search(r"^uv==[0-9.]+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)


def test_two_set_ups_do_not_run_at_once(
    tool: ModuleType, commands: Commands, capsys: pytest.CaptureFixture[str]
) -> None:
    with tool.lock("spark.lock") as is_held:
        assert is_held
        with tool.lock("spark.lock", waits=False) as is_held_twice:
            assert not is_held_twice
        # The other process installs it and reports the result.
        tool.spark(in_background=True)
    assert commands.ran == []
    assert capsys.readouterr().out == ""
