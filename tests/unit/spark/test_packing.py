"""The archive for Spark's nodes has all packages needed, native code included, and no others."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ottla.spark import packing
from ottla.spark.packing import NotInstalled, driver_paths, is_compiled, pack, packed_conf


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "ship.zip"
    packed = pack(str(path))
    assert packed.path == str(path)
    assert packed.bytes == path.stat().st_size
    with zipfile.ZipFile(path) as entries:
        assert packed.files == len(entries.namelist())
    return path


def test_the_archive_has_our_packages_and_their_dependencies(archive: Path) -> None:
    with zipfile.ZipFile(archive) as entries:
        names = entries.namelist()
    assert {"ottla/spark/source.py", "pyspark_ottla/__init__.py", "crc32c/__init__.py"} <= {*names}
    assert any(name.startswith("cramjam/") and name.endswith(".so") for name in names)
    assert any(name.startswith("ottla/native/columns.") for name in names)
    assert not any("__pycache__" in name or name.startswith(("/", "..")) for name in names)
    assert not any(name.startswith("pyarrow/") for name in names)


def test_a_bare_python_runs_it_from_where_it_is_unpacked(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as entries:
        entries.extractall(tmp_path)
    program = (
        "import ottla.native.columns as native, ottla.protocol.batch as batch\n"
        "from ottla.protocol.compression import Codec\n"
        "made = batch.build([batch.Record(0, 1, None, b'x', ())], codec=Codec.LZ4)\n"
        "assert batch.read_header(made).count == 1\n"
        "print(native.__file__)\n"
    )
    # The base Python of a virtual environment has none of its packages.
    bare = (
        Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    )
    done = subprocess.run(
        [bare, "-s", "-c", program],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
    assert done.stdout.strip().endswith(".so") == is_compiled()


def test_the_same_content_is_the_same_archive(archive: Path, tmp_path: Path) -> None:
    pack(str(tmp_path / "again.zip"))
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()


def test_a_missing_distribution_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "REQUIRED_DISTRIBUTIONS", ("no-such-distribution",))
    with pytest.raises(NotInstalled, match="no-such-distribution is not installed: pip install"):
        pack(str(tmp_path / "ship.zip"))
    assert list(tmp_path.iterdir()) == []


def test_executors_find_it_beside_their_work_and_the_driver_where_it_is_installed() -> None:
    assert packed_conf("/packs/ship.zip") == {
        "spark.archives": "/packs/ship.zip#ottla",
        "spark.executorEnv.PYTHONPATH": "./ottla",
    }
    paths = driver_paths()
    assert len(paths) == len(set(paths))
    assert any(os.path.exists(f"{path}/ottla/native/columns.py") for path in paths)
    assert any(os.path.exists(f"{path}/pyarrow") for path in paths)
