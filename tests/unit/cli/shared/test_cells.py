"""Bytes as cells of the output."""

from ottla.cli.shared.cells import bytes_cell


def test_bytes_are_text_if_they_are_utf8() -> None:
    assert bytes_cell(b"k\xc3\xb6nig") == "könig"
    assert bytes_cell(b"") == ""
    assert bytes_cell(None) is None


def test_other_bytes_are_base64() -> None:
    assert bytes_cell(b"\xff\x00") == {"base64": "/wA="}
