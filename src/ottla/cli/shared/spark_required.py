"""What a command that needs Spark says where there is none."""

from importlib.util import find_spec

from ottla.cli.shared.failure import Failure

_PACKAGES = ("pyspark", "pandas", "pyarrow")


def require_spark() -> None:
    """Failure if a package is not installed, or not yet; nothing of them is imported."""
    if not all(map(find_spec, _PACKAGES)):
        raise Failure(
            "Spark is not installed",
            advice="pip install 'ottla[spark]'; `make up` does it beside the broker, and says when"
            " it is ready",
        )
