"""An archive of the packages that executors import, native code included, for bare Python nodes.

Spark's `--py-files` cannot carry native code, because Python imports directly from the zip file.
Spark unpacks an entry of `spark.archives` on every node, where PYTHONPATH includes it.
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

# By import name.
OUR_PACKAGES = ("ottla", "pyspark_ottla")
# By distribution name.
REQUIRED_DISTRIBUTIONS = ("crc32c", "cramjam")
# Needed to run the native package interpreted.
INTERPRETED_DISTRIBUTIONS = ("Cython",)
ARROW_DISTRIBUTIONS = ("pyarrow", "numpy")

PACKED_FILE_BYTES_MAX = 512 << 20
# The directory into which nodes unpack the archive.
UNPACKED_NAME = "ottla"
_UNPACKED_PATH = "spark.executorEnv.PYTHONPATH"
# Needed for building and testing only.
_EXCLUDED_NAMES = frozenset({"__pycache__", "tests", "include"})
# A fixed timestamp: equal content gives an equal archive.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class NotInstalled(OttlaError):
    """A distribution that should be packed is not installed."""


class Packed(NamedTuple):
    """A written archive."""

    path: str
    files: int
    bytes: int


class _Source(NamedTuple):
    """A file, and its name in the archive."""

    path: str
    name: str


def pack(path: str, *, with_arrow: bool = False, files: Files | None = None) -> Packed:
    """Writes an archive for nodes with this Python version and architecture. NotInstalled, OSError.

    With Arrow, nodes need only Python; the archive is ten times larger.
    """
    # Other users must be able to read the archive.
    files = files or RealFiles(shared=True)
    sources = {each.name: each.path for each in _sources(files, with_arrow=with_arrow)}
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as entries:
        for name in sorted(sources):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # Readable by the user who unpacks it, and executable for shared libraries.
            entry.external_attr = 0o755 << 16
            entries.writestr(entry, read_file(files, sources[name], PACKED_FILE_BYTES_MAX))
    content = archive.getvalue()
    replace_file(files, os.path.abspath(path), content)
    return Packed(path, len(sources), len(content))


def packed_conf(path: str) -> Mapping[str, str]:
    """The Spark settings that distribute the archive to the executors."""
    return {"spark.archives": f"{path}#{UNPACKED_NAME}", _UNPACKED_PATH: f"./{UNPACKED_NAME}"}


def driver_paths() -> list[str]:
    """The directories in which the driver's own workers find the archive's packages.

    Queries are planned on the driver's machine, by the Python of the executors.
    """
    roots = [_root_of(package) for package in OUR_PACKAGES]
    for name in (*_required_distributions(), *ARROW_DISTRIBUTIONS):
        found = _distribution(name).locate_file("")
        roots.append(os.path.abspath(str(found)))
    return list(dict.fromkeys(roots))


def is_compiled() -> bool:
    """Whether the native package is compiled."""
    return not str(ottla.native.columns.__file__).endswith(".py")


def _sources(files: Files, *, with_arrow: bool) -> Iterator[_Source]:
    for package in OUR_PACKAGES:
        root = _root_of(package)
        for path in _below(files, f"{root}/{package}"):
            yield _Source(path, os.path.relpath(path, root))
    for name in (*_required_distributions(), *(ARROW_DISTRIBUTIONS if with_arrow else ())):
        yield from _installed(name)


def _required_distributions() -> tuple[str, ...]:
    return (
        REQUIRED_DISTRIBUTIONS
        if is_compiled()
        else REQUIRED_DISTRIBUTIONS + INTERPRETED_DISTRIBUTIONS
    )


def _installed(name: str) -> Iterator[_Source]:
    distribution = _distribution(name)
    for file in distribution.files or ():
        # Files outside of the packages are scripts and manual pages.
        if ".." not in file.parts and _is_wanted(file.parts):
            yield _Source(str(distribution.locate_file(file)), file.as_posix())


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise NotInstalled(f"{name} is not installed: pip install 'ottla[spark]'") from error


def _root_of(package: str) -> str:
    """The directory that contains one of our packages, installed or not."""
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
    return _EXCLUDED_NAMES.isdisjoint(parts)
