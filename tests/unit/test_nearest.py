"""Suggestions of a similar name."""

from ottla.nearest import did_you_mean, nearest


def test_the_nearest_name_is_found_in_any_case() -> None:
    assert nearest("ordes", ["payments", "orders"]) == "orders"
    assert nearest("ORDERS", ["payments", "orders"]) == "orders"
    assert nearest("x", ["payments", "orders"]) is None


def test_a_message_ends_with_a_question_or_nothing() -> None:
    assert did_you_mean("ordes", ["orders"]) == "; did you mean 'orders'?"
    assert did_you_mean("x", ["orders"]) == ""
