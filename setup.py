"""The native package's build: each of its modules is compiled where a C compiler works.

Everything else about the package is in pyproject.toml. `optional` makes a failing compiler a
warning: the same sources then run interpreted.

tools/setup.py compiles module by module: NATIVE_MODULES names them, with commas between, and
NATIVE_BUILD where their C sources go. Without them everything is built here.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

CHOSEN = os.environ.get("NATIVE_MODULES")
SOURCES = sorted(
    path
    for path in Path("src/ottla/native").glob("*.py")
    if path.name != "__init__.py" and (CHOSEN is None or path.stem in CHOSEN.split(","))
)

extensions = cythonize(
    [
        Extension(f"ottla.native.{path.stem}", [str(path)], extra_compile_args=["-O3", "-g0"])
        for path in SOURCES
    ],
    compiler_directives={"language_level": 3, "binding": True},
    build_dir=os.environ.get("NATIVE_BUILD", "build/cython"),
    quiet=True,
)
for extension in extensions:
    # Not kept by cythonize if it is set before.
    extension.optional = True

setup(ext_modules=extensions, options={"build_ext": {"parallel": os.cpu_count()}})
