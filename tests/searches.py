"""Searches by time in a log, with all their steps at once."""

from ottla.errors import PeerError
from ottla.storage import time_search
from ottla.storage.log import Log
from ottla.storage.log_times import LogTimes
from ottla.storage.time_search import Answer, Search, TimestampOffset, Unreadable


def offset_for_time(log: Log, timestamp_ms: int) -> TimestampOffset | None:
    return run(time_search.first_since(LogTimes(log), timestamp_ms))


def largest_timestamp(log: Log) -> TimestampOffset | None:
    return run(time_search.latest(LogTimes(log)))


def run(search: Search) -> TimestampOffset | None:
    answer: Answer = None
    try:
        while True:
            reading = search.send(answer)
            try:
                answer = None if reading is None else reading.answer()
            except PeerError as error:
                answer = Unreadable(str(error))
    except StopIteration as over:
        found: TimestampOffset | None = over.value
        return found
