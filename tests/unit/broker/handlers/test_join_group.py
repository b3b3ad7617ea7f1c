"""The member ids of JoinGroup."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.handlers.join_group import _uuid4


@given(st.binary(min_size=16, max_size=16))
def test_a_member_id_is_a_version_4_uuid_made_of_its_token(token: bytes) -> None:
    assert _uuid4(token.hex()) == str(uuid.UUID(bytes=token, version=4))
