"""Error codes in responses, on any level."""

from ottla.errors import ErrorCode
from ottla.protocol.error_codes import has_error_code
from ottla.protocol.messages.create_topics import CreateTopicsResponse, TopicResult
from ottla.protocol.messages.envelope import EnvelopeResponse

CODE = ErrorCode.NOT_CONTROLLER


def test_a_code_is_found_at_the_top_in_a_list_and_nowhere_else() -> None:
    assert has_error_code(EnvelopeResponse(error_code=CODE), CODE)
    assert not has_error_code(EnvelopeResponse(error_code=0), CODE)
    results = tuple(TopicResult(name=str(code), error_code=code) for code in (0, CODE))
    assert has_error_code(CreateTopicsResponse(topics=results), CODE)
    assert not has_error_code(CreateTopicsResponse(topics=results[:1], throttle_time_ms=CODE), CODE)
    assert not has_error_code(None, CODE)
    partly = TopicResult(name="x", error_code=0, topic_config_error_code=CODE)
    assert has_error_code(CreateTopicsResponse(topics=(partly,)), CODE)
