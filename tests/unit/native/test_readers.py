"""`scan` and `columns` have a reader each, which must not part (docs/decisions/0015)."""

import ast
from pathlib import Path

import ottla.native

SHARED = {
    "note",
    "varint",
    "long_varint",
    "begin_record",
    "field",
    "header_count",
    "skip_headers",
    "moved",
    "refuse",
}
FAULTS = {
    "_CUT_VARINT",
    "_LONG_VARINT",
    "_BAD_LENGTH",
    "_BAD_FIELD",
    "_BAD_HEADERS",
    "_BAD_OFFSET",
    "_PAST_64_BITS",
    "_BYTES_LEFT",
    "_FAULTS",
    "_RECORD_LENGTH_MIN",
}


def parsed(name: str) -> ast.Module:
    return ast.parse((Path(ottla.native.__file__).parent / f"{name}.py").read_text())


def methods(name: str) -> dict[str, str]:
    """The methods of a module's reader, as they are written but for their form."""
    (reader,) = (
        node
        for node in parsed(name).body
        if isinstance(node, ast.ClassDef) and node.name == "_Reader"
    )
    return {node.name: ast.dump(node) for node in reader.body if isinstance(node, ast.FunctionDef)}


def constants(name: str) -> dict[str, str]:
    return {
        target.id: ast.dump(node.value)
        for node in parsed(name).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def test_both_readers_of_records_read_them_alike() -> None:
    scan, columns = methods("scan"), methods("columns")
    assert scan.keys() & columns.keys() == SHARED | {"__init__"}
    assert {name for name in SHARED if scan[name] != columns[name]} == set()


def test_both_readers_of_records_find_the_same_faults() -> None:
    scan, columns = constants("scan"), constants("columns")
    assert {name for name in FAULTS if scan[name] != columns[name]} == set()
