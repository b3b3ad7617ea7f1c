"""An archive of what executors import, native code included, for nodes that have only Python.

Spark's `--py-files` cannot carry native code: it is imported from the zip itself. An entry of
`spark.archives` is unpacked on every node, and found there by its PYTHONPATH.
"""

import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module, metadata
from io import BytesIO
from typing import NamedTuple

import ottla.native.columns
from ottla.errors import OttlaError
from ottla.seams.files import Files, RealFiles, read_file, replace_file

# By the names under which they are imported.
OURS = ("ottla", "pyspark_ottla")
# By the names under which they are installed.
NEEDED = ("crc32c", "cramjam")
# What interpreted native code is read with.
INTERPRETED = ("Cython",)
ARROW = ("pyarrow", "numpy")

FILE_BYTES_MAX = 512 << 20
# The name under which nodes unpack it, beside what else their tasks have.
UNPACKED = "ottla"
_UNPACKED_PATH = "spark.executorEnv.PYTHONPATH"
# For building and testing, not for running.
_LEFT_OUT = frozenset({"__pycache__", "tests", "include"})
# The same content is the same archive, whenever it is made.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class NotInstalled(OttlaError):
    """What is to be packed is not there."""


class Packed(NamedTuple):
    """An archive that was written."""

    path: str
    files: int
    bytes: int


class _Source(NamedTuple):
    """A file, and what it is called in the archive."""

    path: str
    name: str


def pack(path: str, *, with_arrow: bool = False, files: Files | None = None) -> Packed:
    """Writes an archive for nodes with this Python and this kind of machine. NotInstalled, OSError.

    With Arrow the nodes need nothing but Python itself; the archive is ten times larger.
    """
    # An archive is made to be handed on.
    files = files or RealFiles(shared=True)
    sources = {each.name: each.path for each in _sources(files, with_arrow=with_arrow)}
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as entries:
        for name in sorted(sources):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # Readable for whoever unpacks it, and executable where a library has to be.
            entry.external_attr = 0o755 << 16
            entries.writestr(entry, read_file(files, sources[name], FILE_BYTES_MAX))
    content = archive.getvalue()
    replace_file(files, os.path.abspath(path), content)
    return Packed(path, len(sources), len(content))


def packed_conf(path: str) -> Mapping[str, str]:
    """What tells a session to give the archive to its executors."""
    return {"spark.archives": f"{path}#{UNPACKED}", _UNPACKED_PATH: f"./{UNPACKED}"}


def driver_paths() -> list[str]:
    """Where the driver's own workers find what the archive has, whichever Python they run.

    Queries are planned beside the driver, by the same Python that the executors run.
    """
    roots = [_root_of(package) for package in OURS]
    for name in (*_needed(), *ARROW):
        found = _distribution(name).locate_file("")
        roots.append(os.path.abspath(str(found)))
    return list(dict.fromkeys(roots))


def is_compiled() -> bool:
    """Whether the native code here is machine code."""
    return not str(ottla.native.columns.__file__).endswith(".py")


def _sources(files: Files, *, with_arrow: bool) -> Iterator[_Source]:
    for package in OURS:
        root = _root_of(package)
        for path in _below(files, f"{root}/{package}"):
            yield _Source(path, os.path.relpath(path, root))
    for name in (*_needed(), *(ARROW if with_arrow else ())):
        yield from _installed(name)


def _needed() -> tuple[str, ...]:
    return NEEDED if is_compiled() else NEEDED + INTERPRETED


def _installed(name: str) -> Iterator[_Source]:
    distribution = _distribution(name)
    for file in distribution.files or ():
        # What lies outside of the packages is a command or a manual page.
        if ".." not in file.parts and _is_wanted(file.parts):
            yield _Source(str(distribution.locate_file(file)), file.as_posix())


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise NotInstalled(f"{name} is not installed: pip install 'ottla[spark]'") from error


def _root_of(package: str) -> str:
    """The directory in which a package of ours lies, installed or not."""
    (path, *_) = import_module(package).__path__
    return os.path.dirname(os.path.abspath(path))


def _below(files: Files, directory: str) -> Iterator[str]:
    for name in files.list(directory):
        path = f"{directory}/{name}"
        if not _is_wanted((name,)):
            continue
        if files.is_dir(path):
            yield from _below(files, path)
        else:
            yield path


def _is_wanted(parts: Iterable[str]) -> bool:
    return _LEFT_OUT.isdisjoint(parts)
