"""The served APIs have handlers, and a broker imports few modules."""

import subprocess
import sys
from pathlib import Path

from ottla.broker import handlers
from ottla.broker.requests.served_apis import INTER_BROKER, SERVED
from ottla.protocol.messages import APIS

HEAVY = {"typer", "rich", "structlog", "starlette", "pyarrow", "pyspark", "nicegui", "kazoo"}


def test_served_apis_and_handlers_are_the_same() -> None:
    directory = Path(handlers.__file__).parent
    found = {path.stem for path in directory.glob("*.py") if not path.stem.startswith("_")}
    assert found == {APIS[key].module.rpartition(".")[2] for key in SERVED | INTER_BROKER}


def test_a_broker_imports_nothing_that_it_does_not_need() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import ottla.broker.node.node, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert "ottla" in imported
    assert imported & HEAVY == set()
