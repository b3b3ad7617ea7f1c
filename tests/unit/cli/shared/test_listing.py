"""The formats of listings."""

import io

from ottla.cli.shared.listing import ListingFormat, listing_writer


def written(form: ListingFormat, *rows: dict[str, str | int | None]) -> str:
    stream = io.StringIO()
    writer = listing_writer(form, named="topic", stream=stream)
    for row in rows:
        writer.write(row)
    writer.close()
    return stream.getvalue()


def test_yaml_is_a_sequence_of_mappings() -> None:
    rows = ({"kind": "topic", "name": "a: b", "count": 1}, {"kind": "x", "leader": None})
    assert written(ListingFormat.YAML, *rows) == (
        '- kind: "topic"\n  name: "a: b"\n  count: 1\n- kind: "x"\n  leader: null\n'
    )
    assert written(ListingFormat.YAML) == "[]\n"


def test_names_are_those_of_the_listed_kind() -> None:
    rows = ({"kind": "topic", "name": "a"}, {"kind": "partition", "name": "a-0"})
    assert written(ListingFormat.NAME, *rows) == "a\n"


def test_consecutive_rows_of_one_name_print_it_once() -> None:
    rows = [{"kind": "topic", "name": name} for name in ("a", "a", "b", "a")]
    assert written(ListingFormat.NAME, *rows) == "a\nb\na\n"
