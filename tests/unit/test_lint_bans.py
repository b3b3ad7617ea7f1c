"""The seams rule holds: outside the seams, the linter refuses what is not deterministic."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT

GUARDED_PACKAGES = (
    "native",
    "protocol",
    "storage",
    "client",
    "metadata",
    "replication",
    "coordinators",
    "broker",
)

# One use a line; the imports that these need come first, and are allowed by themselves.
ALLOWED_IMPORTS = """\
import asyncio
import builtins
import codecs
import io
import os
import os.path
import uuid
from datetime import date, datetime
"""
FORBIDDEN_USES = """\
import time
import time as clock
from time import monotonic
import random
from random import choice
import secrets
import threading
import _thread
import multiprocessing
from multiprocessing import shared_memory
import concurrent.futures
from concurrent.futures import ThreadPoolExecutor
import socket
import select
import selectors
import mmap
import fcntl
import pathlib
from pathlib import Path
import shutil
import tempfile
import glob
from os import urandom
from asyncio import to_thread
from uuid import uuid4
datetime.now()
datetime.utcnow()
datetime.today()
date.today()
uuid.uuid1()
uuid.uuid4()
os.urandom(16)
os.getrandom(16)
asyncio.to_thread(print)
builtins.open("x")
io.open("x")
io.FileIO("x")
os.open("x", 0)
os.fdopen(3)
os.read(3, 1)
os.pread(3, 1, 0)
os.preadv(3, [], 0)
os.write(3, b"")
os.writev(3, [])
os.pwrite(3, b"", 0)
os.pwritev(3, [], 0)
os.fsync(3)
os.fdatasync(3)
os.sync()
os.truncate("x", 0)
os.ftruncate(3, 0)
os.rename("x", "y")
os.replace("x", "y")
os.link("x", "y")
os.symlink("x", "y")
os.unlink("x")
os.remove("x")
os.mkdir("x")
os.makedirs("x")
os.rmdir("x")
os.removedirs("x")
os.listdir("x")
os.scandir("x")
os.walk("x")
os.stat("x")
os.fstat(3)
os.statvfs("x")
os.utime("x")
import subprocess
os.fork()
asyncio.create_subprocess_exec("x")
asyncio.create_subprocess_shell("x")
asyncio.open_connection()
asyncio.open_unix_connection()
asyncio.start_server(print)
asyncio.start_unix_server(print)
codecs.open("x")
os.posix_fallocate(3, 0, 1)
os.copy_file_range(3, 4, 1)
os.renames("x", "y")
os.lstat("x")
os.path.getmtime("x")
os.path.islink("x")
os.path.exists("x")
os.path.getsize("x")
os.path.isdir("x")
os.path.isfile("x")
"""
OPEN_USES = """\
open("x")
with open("x") as file: file
"""

# A ban on `builtins.open` sees only that spelling; the plain call has a rule of its own.
OPEN_CODE = "PTH123"


def ruff() -> str:
    """The linter beside this interpreter, or the one of the repository's own environment."""
    for directory in (Path(sys.executable).parent, ROOT / ".venv" / "bin"):
        if (directory / "ruff").exists():
            return str(directory / "ruff")
    raise FileNotFoundError("ruff is neither beside the interpreter nor in .venv")


def refused_lines(package: str, source: str, code: str) -> list[str]:
    """The lines of `source` which, in that package, the linter refuses by the rule `code`."""
    finished = subprocess.run(
        [
            *(ruff(), "check", "--no-cache", "--output-format", "json"),
            *("--stdin-filename", f"src/ottla/{package}/x.py", "-"),
        ],
        cwd=ROOT,
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode in (0, 1), finished.stderr
    findings = json.loads(finished.stdout)
    rows = {finding["location"]["row"] for finding in findings if finding["code"] == code}
    return [line for row, line in enumerate(source.splitlines(), 1) if row in rows]


@pytest.mark.parametrize("package", GUARDED_PACKAGES)
def test_what_is_not_deterministic_is_refused_outside_the_seams(package: str) -> None:
    refused = refused_lines(package, ALLOWED_IMPORTS + FORBIDDEN_USES, "TID251")
    assert refused == FORBIDDEN_USES.splitlines()


def test_a_plain_open_is_refused_outside_the_seams() -> None:
    refused = refused_lines("storage", OPEN_USES, OPEN_CODE)
    assert refused == OPEN_USES.splitlines()


def test_the_seams_themselves_may_use_it_all() -> None:
    source = ALLOWED_IMPORTS + FORBIDDEN_USES
    assert refused_lines("seams", source, "TID251") == []
    assert refused_lines("seams", OPEN_USES, OPEN_CODE) == []


def test_every_ban_has_a_forbidden_use_here() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    banned = settings["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    tried = set(re.findall(r"\w+", FORBIDDEN_USES))
    assert [name for name in banned if name.rpartition(".")[2] not in tried] == []
    assert "time" in banned
