"""The ids that joiners are given."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.handlers.join_group import _uuid4


@given(st.binary(min_size=16, max_size=16))
def test_an_id_is_a_uuid_of_version_4_that_has_its_token(token: bytes) -> None:
    assert _uuid4(token.hex()) == str(uuid.UUID(bytes=token, version=4))
