"""The check for Spark of commands that need it."""

from importlib.util import find_spec

from ottla.cli.shared.failure import Failure

_PACKAGES = ("pyspark", "pandas", "pyarrow")


def require_spark() -> None:
    """Failure if one of Spark's packages is not installed. Imports none of them."""
    if not all(map(find_spec, _PACKAGES)):
        raise Failure(
            "Spark is not installed",
            advice="pip install 'ottla[spark]'; `make up` installs it in the background, and"
            " reports when it is ready",
        )
