"""The model of the pipeline `trending` in plain Python, without Spark."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.spark.pipelines.catalogue import GeneratedRecord
from ottla.spark.pipelines.trending.transform import Rules

AHEAD_MS_MAX = 60_000


class Event(NamedTuple):
    event_id: str
    kind: str
    post_id: str
    at_ms: int


class Activity(NamedTuple):
    start_s: int
    end_s: int
    post_id: str
    likes: int
    comments: int


class Trend(NamedTuple):
    start_s: int
    end_s: int
    rank: int
    post_id: str
    likes: int
    comments: int
    score: int


class Counted(NamedTuple):
    """Events that count, each once, and the time before which all is written."""

    events: list[Event]
    watermark_ms: int


def usable(records: Iterable[GeneratedRecord]) -> Iterator[Event]:
    for record in records:
        try:
            event = json.loads(record.value)
        except ValueError:
            continue
        if event["at_ms"] <= record.timestamp_ms + AHEAD_MS_MAX and event["kind"] != "post":
            yield Event(event["event_id"], event["kind"], event["post_id"], event["at_ms"])


def counted(
    batches: Sequence[Sequence[GeneratedRecord]], rules: Rules, unseen: Collection[int] = ()
) -> Counted:
    """The counts of a stream that gets records in these batches, some of which may be empty.

    A batch is compared with the watermark of the one before it, and writes up to its own. The
    events of the batches `unseen` count, but do not move the watermark.
    """
    found: dict[str, Event] = {}
    newest_ms = 0
    # Of the batch before, and of this one.
    late_ms = watermark_ms = 0
    for number, batch in enumerate(batches):
        late_ms, watermark_ms = watermark_ms, max(0, newest_ms - rules.lateness_s * 1000)
        for event in usable(batch):
            if number not in unseen:
                newest_ms = max(newest_ms, event.at_ms)
            if event.at_ms > late_ms:
                found.setdefault(event.event_id, event)
    return Counted(list(found.values()), watermark_ms)


def activity(happened: Counted, rules: Rules) -> list[Activity]:
    length_s = rules.activity_window_s
    rows = _per_post(happened, length_s, length_s)
    return sorted(Activity(*window, post, *counts) for (window, post), counts in rows)


def trending(happened: Counted, rules: Rules) -> list[Trend]:
    posts: dict[tuple[int, int], list[tuple[int, str, int, int]]] = {}
    rows = _per_post(happened, rules.trending_window_s, rules.trending_slide_s)
    for (window, post), (likes, comments) in rows:
        posts.setdefault(window, []).append((likes + 3 * comments, post, likes, comments))
    return sorted(
        Trend(*window, rank, post, likes, comments, score)
        for window, found in posts.items()
        for rank, (score, post, likes, comments) in enumerate(sorted(found, reverse=True), 1)
        if rank <= rules.trending_posts_max
    )


def _per_post(
    happened: Counted, length_s: int, slide_s: int
) -> Iterator[tuple[tuple[tuple[int, int], str], tuple[int, int]]]:
    counts: Counter[tuple[tuple[int, int], str, str]] = Counter()
    for event in happened.events:
        last_s = event.at_ms // 1000 // slide_s * slide_s
        for start_s in range(last_s, event.at_ms // 1000 - length_s, -slide_s):
            counts[(start_s, start_s + length_s), event.post_id, event.kind] += 1
    for window, post in {(window, post) for window, post, _ in counts}:
        if window[1] * 1000 <= happened.watermark_ms:
            yield (window, post), (counts[window, post, "like"], counts[window, post, "comment"])
