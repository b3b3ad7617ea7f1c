"""The native package's modules as both kinds: compiled, and interpreted from the same source."""

import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import ottla.native

_DIRECTORY = Path(ottla.native.__file__).parent


def _is_compiled(name: str) -> bool:
    return any((_DIRECTORY / f"{name}{suffix}").exists() for suffix in EXTENSION_SUFFIXES)


# Without a C compiler there is no compiled kind to test.
KINDS = (["compiled"] if _is_compiled("scan") else []) + ["interpreted"]


def load(name: str, kind: str) -> ModuleType:
    """A module of ottla.native as the kind that is asked for."""
    if kind == "compiled":
        module = import_module(f"ottla.native.{name}")
        if Path(str(module.__file__)).suffix == ".py":
            raise RuntimeError(f"{module.__file__} is not compiled")
        return module
    alias = f"interpreted_{name}"
    if alias not in sys.modules:
        source = str(_DIRECTORY / f"{name}.py")
        spec = spec_from_loader(alias, SourceFileLoader(alias, source))
        if spec is None or spec.loader is None:
            raise RuntimeError(f"{source} cannot be loaded")
        module = module_from_spec(spec)
        sys.modules[alias] = module
        spec.loader.exec_module(module)
    return sys.modules[alias]
