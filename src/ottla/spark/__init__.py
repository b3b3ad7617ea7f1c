"""Topics as Apache Spark tables and streams, without a jar.

    from ottla.spark import read, session

    spark = session("orders")
    read(spark, "orders", columns=["key", "value"]).show()

`spark.read.format("ottla")` and `spark.readStream.format("ottla")` work in any session. This
package imports Spark on first use only.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.spark.frames import read, read_stream
    from ottla.spark.sessions import session

__all__ = ["read", "read_stream", "session"]


def __getattr__(name: str) -> Any:
    """Imports a function on first use: every task imports this package, and few need these."""
    if name in ("read", "read_stream"):
        from ottla.spark import frames

        return getattr(frames, name)
    if name == "session":
        from ottla.spark.sessions import session

        return session
    raise AttributeError(name)
