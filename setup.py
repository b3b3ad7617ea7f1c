"""The native package's build: each of its modules is compiled where a C compiler works.

Everything else about the package is in pyproject.toml. `optional` makes a failing compiler a
warning: the same sources then run interpreted.
"""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCES = sorted(
    path for path in Path("src/ottla/native").glob("*.py") if path.name != "__init__.py"
)

extensions = cythonize(
    [
        Extension(f"ottla.native.{path.stem}", [str(path)], extra_compile_args=["-O3"])
        for path in SOURCES
    ],
    compiler_directives={"language_level": 3, "binding": True},
    build_dir="build/cython",
    quiet=True,
)
for extension in extensions:
    # Not kept by cythonize if it is set before.
    extension.optional = True

setup(ext_modules=extensions)
