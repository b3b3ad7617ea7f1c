"""The cache of downloads and builds, and the error for missing tools."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "bench"
PACKAGES = {
    "java": "default-jdk-headless",
    "mvn": "maven",
    "cargo": "cargo",
    "gcc": "gcc",
    "make": "make",
}


class ToolMissing(Exception):
    """A required tool is not installed; rows that need it are skipped with this reason."""


def need(*commands: str) -> None:
    for command in commands:
        if shutil.which(command) is None:
            raise ToolMissing(
                f"{command} is not installed (Debian: apt install {PACKAGES[command]})"
            )


def cached(path: Path, build: Callable[[Path], None]) -> Path:
    """The file or directory at `path`; `build` creates it under another name first."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + f".unfinished-{os.getpid()}")
        try:
            build(unfinished)
            unfinished.rename(path)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.unlink(missing_ok=True)
    return path


def run_step(command: list[str], directory: Path) -> None:
    """One step of a build; its output is shown if it fails."""
    done = subprocess.run(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise ToolMissing(f"{command[0]} failed in {directory}: {done.stdout[-500:]}")
