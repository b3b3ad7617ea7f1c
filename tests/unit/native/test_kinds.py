from pathlib import Path

import pytest

from tests.support.native_modules import KINDS, load


@pytest.mark.parametrize(
    "name",
    [
        "admission",
        "batches",
        "build",
        "columns",
        "commit",
        "keymap",
        "produce",
        "replicated",
        "scan",
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_each_module_is_compiled_or_interpreted_as_named(name: str, kind: str) -> None:
    suffix = Path(str(load(name, kind).__file__)).suffix
    assert (suffix == ".py") == (kind == "interpreted")
