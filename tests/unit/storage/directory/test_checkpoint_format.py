import pytest

from ottla.errors import CorruptLog
from ottla.storage.directory.checkpoint_format import decode_entries, encode_entries, lines_of

PATH = "/data/some-checkpoint"


def test_entries_are_written_as_kafka_writes_them_and_read_again() -> None:
    content = encode_entries(["a 0 5", "b 1 7"])
    assert content == b"0\n2\na 0 5\nb 1 7\n"
    assert [line.text for line in decode_entries(content, PATH)] == ["a 0 5", "b 1 7"]


def test_a_file_that_a_power_loss_emptied_has_no_entries() -> None:
    assert decode_entries(b"", PATH) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"1\n0\n", "line 1: version 1"),
        (b"0\n", "line 1: the file ends"),
        (b"0\n2\na 0 5\n", "line 2: 2 entries announced, 1 found"),
        (b"x\n0\n", "line 1: 'x' is no number"),
        (b"0\n-1\n", "line 2: '-1' is no number"),
    ],
)
def test_a_garbled_file_is_named_with_its_line(content: bytes, reason: str) -> None:
    with pytest.raises(CorruptLog, match=reason) as damage:
        decode_entries(content, PATH)
    assert PATH in str(damage.value)


def test_fields_and_integers_are_strict() -> None:
    (line,) = lines_of(b"a 0 9223372036854775808", PATH)
    assert line.fields(3) == ["a", "0", "9223372036854775808"]
    with pytest.raises(CorruptLog, match="2 fields expected, 3 found"):
        line.fields(2)
    for text in ("9223372036854775808", "1_0", " 1", "\u0661", ""):
        with pytest.raises(CorruptLog, match="is no number"):
            line.integer(text)


def test_text_behind_the_last_line_feed_is_a_line() -> None:
    assert [line.text for line in lines_of(b"a\nb", PATH)] == ["a", "b"]
    assert [line.text for line in lines_of(b"a\n", PATH)] == ["a"]
    assert [line.position for line in lines_of(b"aa\n\nb\n", PATH)] == [0, 3, 4]
