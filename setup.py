"""The build of the native package: compiles each of its modules if a C compiler works.

Everything else about the package is in pyproject.toml. `optional` turns a failing compiler into a
warning: the same sources then run interpreted.

tools/setup.py compiles module by module: NATIVE_MODULES lists the modules, separated by commas, and
NATIVE_BUILD is the directory for their C sources. Without them all modules are built.
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
    # cythonize does not keep it if it is set before.
    extension.optional = True

setup(ext_modules=extensions, options={"build_ext": {"parallel": os.cpu_count()}})
