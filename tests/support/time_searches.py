"""Searches by time in a log, with all their steps at once."""

from ottla.errors import PeerError
from ottla.storage.log import time_search
from ottla.storage.log.cold_read import ColdBytes
from ottla.storage.log.log import Log
from ottla.storage.log.time_search import Answer, Reading, Search, TimestampOffset, Unreadable


def offset_for_time(log: Log, timestamp_ms: int) -> TimestampOffset | None:
    return run(time_search.first_since(log, timestamp_ms))


def largest_timestamp(log: Log) -> TimestampOffset | None:
    return run(time_search.latest(log))


def run(search: Search) -> TimestampOffset | None:
    answer: Answer = None
    try:
        while True:
            step = search.send(answer)
            answer = None
            if isinstance(step, ColdBytes):
                step.warm()
            elif step is not None:
                answer = _answer(step)
    except StopIteration as over:
        found: TimestampOffset | None = over.value
        return found


def _answer(reading: Reading) -> Answer:
    try:
        return reading.answer()
    except PeerError as error:
        return Unreadable(str(error))
