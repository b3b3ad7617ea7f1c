"""What a command that needs Spark says where there is none."""

from importlib.util import find_spec

from ottla.cli.failure import Failure


def require_spark() -> None:
    """Failure if the package is not installed; nothing of it is imported."""
    if find_spec("pyspark") is None:
        raise Failure("Spark is not installed", advice="pip install 'ottla[spark]'")
