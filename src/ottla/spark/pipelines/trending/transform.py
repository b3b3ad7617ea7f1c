"""Events of a social medium become rows about its posts: `activity` and `trending`.

An event is JSON: `{"event_id": …, "kind": "like" | "comment" | …, "post_id": …, "at_ms": …}`.
- What is sent twice counts once: by its `event_id`, as long as the second comes in time.
- What comes late counts where it belongs, in the window of `at_ms`. Later than `lateness_s` behind
  the newest event that was seen, it is left out, since its windows have been written by then.
- What is no event is left out and counted in the progress, and so is an event that claims to be of
  the future: it would move the end of all waiting there, and everybody else's would be too late.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

SCHEMA = "event_id string, kind string, post_id string, at_ms bigint"
LIKE, COMMENT = "like", "comment"
# Who writes something cares more than who taps something.
COMMENT_WEIGHT = 3
ID_CHARACTERS_MAX = 128
# How far the clock of a phone may be ahead of the record's.
CLOCK_AHEAD_MS_MAX = 60_000
# In the progress of a query.
OBSERVED = "events"


@dataclass(frozen=True, slots=True)
class Rules:
    """Windows are of event time. A checkpoint is good for one set of rules."""

    activity_window_s: int = 60
    trending_window_s: int = 300
    trending_slide_s: int = 60
    lateness_s: int = 120
    trending_posts_max: int = 10


RULES = Rules()


def activity(records: DataFrame, rules: Rules = RULES) -> DataFrame:
    """Likes and comments of each post, minute by minute: their sum is the post's total.

    A row is written once, when nothing can be added to it any more.
    """
    return activity_of(once(events(records), rules), rules)


def trending(records: DataFrame, rules: Rules = RULES) -> DataFrame:
    """The posts with the highest scores of the last minutes, ranked, anew every minute."""
    return trending_of(once(events(records), rules), rules)


def events(records: DataFrame) -> DataFrame:
    """What can be used of the records of a topic, with the time of each event as `at`."""
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
    """False or null if it is not."""
    return (
        _is_id("event_id")
        & _is_id("post_id")
        & f.col("kind").isNotNull()
        & f.col("at_ms").between(0, f.col("came_ms") + CLOCK_AHEAD_MS_MAX)
    )


def _is_id(column: str) -> Column:
    return f.char_length(column).between(1, ID_CHARACTERS_MAX)


def once(sent: DataFrame, rules: Rules) -> DataFrame:
    """Without what comes too late, and without what comes again. For streams."""
    in_time = sent.withWatermark("at", f"{rules.lateness_s} seconds")
    return in_time.dropDuplicatesWithinWatermark(["event_id"])


def activity_of(happened: DataFrame, rules: Rules) -> DataFrame:
    """Counts of each post in windows that do not overlap."""
    window = f.window("at", f"{rules.activity_window_s} seconds")
    return _counted(happened, window).select(
        f.col("window.start").alias("window_start"),
        f.col("window.end").alias("window_end"),
        "post_id",
        "likes",
        "comments",
    )


def trending_of(happened: DataFrame, rules: Rules) -> DataFrame:
    """The best of each window; of posts with the same score, the later name is the better one."""
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
