"""Turns the events of a social network into rows per post: `activity` and `trending`.

An event is JSON: `{"event_id": …, "kind": "like" | "comment" | …, "post_id": …, "at_ms": …}`.
- Duplicates with the same `event_id` count once, if they arrive within the watermark.
- A late event counts in the window of its `at_ms`. An event more than `lateness_s` behind the
  newest one is dropped, because its windows are already written.
- A record that is not an event is dropped and counted in the progress. So is an event from the
  future: it would advance the watermark, and all other events would be too late.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

SCHEMA = "event_id string, kind string, post_id string, at_ms bigint"
LIKE, COMMENT = "like", "comment"
# A comment shows more interest than a like.
COMMENT_WEIGHT = 3
ID_CHARACTERS_MAX = 128
# How far an event's time may be ahead of its record's timestamp.
CLOCK_AHEAD_MS_MAX = 60_000
# The name of the counts in a query's progress.
OBSERVED = "events"


@dataclass(frozen=True, slots=True)
class Rules:
    """Windows are in event time. A checkpoint is valid for one set of rules."""

    activity_window_s: int = 60
    trending_window_s: int = 300
    trending_slide_s: int = 60
    lateness_s: int = 120
    trending_posts_max: int = 10


RULES = Rules()


def activity(records: DataFrame, rules: Rules = RULES) -> DataFrame:
    """Likes and comments of each post per minute; their sum is the post's total.

    A row is written once, when its window is complete.
    """
    return activity_of(deduplicated(events(records), rules), rules)


def trending(records: DataFrame, rules: Rules = RULES) -> DataFrame:
    """The ranked posts with the highest scores of the last minutes, for every minute."""
    return trending_of(deduplicated(events(records), rules), rules)


def events(records: DataFrame) -> DataFrame:
    """The valid events among a topic's records, with the time of each event as `at`."""
    parsed = records.select(
        f.from_json(f.col("value").cast("string"), SCHEMA).alias("event"),
        f.unix_millis("timestamp").alias("came_ms"),
    ).select("event.*", "came_ms")
    usable = f.coalesce(_is_usable(), f.lit(False))
    return (
        parsed.observe(
            OBSERVED,
            f.count(f.lit(1)).alias("records"),
            f.count_if(~usable).alias("unusable"),
        )
        .where(usable)
        .where(f.col("kind").isin(LIKE, COMMENT))
        .select("event_id", "kind", "post_id", f.timestamp_millis("at_ms").alias("at"))
    )


def _is_usable() -> Column:
    """True for a valid event, otherwise false or null."""
    return (
        _is_id("event_id")
        & _is_id("post_id")
        & f.col("kind").isNotNull()
        & f.col("at_ms").between(0, f.col("came_ms") + CLOCK_AHEAD_MS_MAX)
    )


def _is_id(column: str) -> Column:
    return f.char_length(column).between(1, ID_CHARACTERS_MAX)


def deduplicated(sent: DataFrame, rules: Rules) -> DataFrame:
    """Events without late ones and without duplicates. For streams."""
    in_time = sent.withWatermark("at", f"{rules.lateness_s} seconds")
    return in_time.dropDuplicatesWithinWatermark(["event_id"])


def activity_of(happened: DataFrame, rules: Rules) -> DataFrame:
    """Counts per post in tumbling windows."""
    window = f.window("at", f"{rules.activity_window_s} seconds")
    return _counted(happened, window).select(
        f.col("window.start").alias("window_start"),
        f.col("window.end").alias("window_end"),
        "post_id",
        "likes",
        "comments",
    )


def trending_of(happened: DataFrame, rules: Rules) -> DataFrame:
    """The top posts of each sliding window. Equal scores are ordered by descending post id."""
    window = f.window(
        "at", f"{rules.trending_window_s} seconds", f"{rules.trending_slide_s} seconds"
    )
    score = (f.col("likes") + COMMENT_WEIGHT * f.col("comments")).alias("score")
    post = f.struct("post_id", "likes", "comments", score)
    best = f.max_by(post, f.struct(score, "post_id"), rules.trending_posts_max)
    ranked = _counted(happened, window).groupBy("window").agg(best.alias("posts"))
    return ranked.select("window", f.posexplode("posts").alias("place", "post")).select(
        f.col("window.start").alias("window_start"),
        f.col("window.end").alias("window_end"),
        (f.col("place") + 1).alias("rank"),
        "post.*",
    )


def _counted(happened: DataFrame, window: Column) -> DataFrame:
    return happened.groupBy(window, "post_id").agg(
        f.count_if(f.col("kind") == LIKE).alias("likes"),
        f.count_if(f.col("kind") == COMMENT).alias("comments"),
    )
