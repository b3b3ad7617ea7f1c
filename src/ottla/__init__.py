"""Ottla: a distributed commit log that speaks Kafka's wire protocol."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.arrow.topics import read_topic

__version__ = "0.1.0"
__all__ = ["__version__", "read_topic"]

# Imported on first use, so that `import ottla` stays quick.
_LAZY_MODULES = {"read_topic": "ottla.client.arrow.topics"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
