"""Generates the events of a social network, with posts that become popular and fade.

The events have realistic faults: late arrivals from phones that were offline, duplicates from
retries, truncated values from broken connections, and wrong clocks.
"""

import json
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from ottla.spark.pipelines.catalogue import GeneratedRecord
from ottla.spark.pipelines.seeded_random import SeededRandom

USERS = 20_000
# Most reactions go to a post among the last so many reactions: popular posts become more popular,
# until newer ones replace them.
RECENT_REACTIONS_MAX = 400
POSTS_AT_FIRST = 20
POST_SHARE, COMMENT_SHARE, FRESH_SHARE = 0.02, 0.12, 0.15

NETWORK_DELAY_MS = 300.0
TUNNEL_SHARE, TUNNEL_DELAY_MS = 0.04, 30_000.0
OVERNIGHT_SHARE, OVERNIGHT_DELAY_MS = 0.004, 900_000.0
REPEATED_SHARE, REPEATED_DELAY_MS = 0.02, 5_000.0
CUT_OFF_SHARE = 0.002
CLOCK_AHEAD_SHARE, CLOCK_AHEAD_MS = 0.001, 86_400_000


def generate(seed: int, start_ms: int, events_per_s: float) -> Iterator[GeneratedRecord]:
    """Endless records in order of arrival. Equal arguments give equal records."""
    return _SocialNetwork(seed, start_ms, events_per_s).records()


class _SocialNetwork:
    """The state of the network that affects its next events."""

    def __init__(self, seed: int, start_ms: int, events_per_s: float) -> None:
        self._random = SeededRandom(seed)
        # Different runs have different event ids.
        self._run = f"{seed:x}-{start_ms:x}"
        self._now_ms = float(start_ms)
        self._mean_ms = 1000 / events_per_s
        self._event_count = 0
        self._posts: deque[str] = deque(maxlen=RECENT_REACTIONS_MAX)
        self._recent: deque[str] = deque(maxlen=RECENT_REACTIONS_MAX)
        # Sent and not yet arrived; the number orders records that arrive at the same time.
        self._in_flight: list[tuple[int, int, GeneratedRecord]] = []
        self._sent = 0

    def records(self) -> Iterator[GeneratedRecord]:
        while True:
            self._now_ms += self._random.exponential(self._mean_ms)
            while self._in_flight and self._in_flight[0][0] <= self._now_ms:
                yield heappop(self._in_flight)[2]
            self._next_event()

    def _next_event(self) -> None:
        self._event_count += 1
        if len(self._posts) < POSTS_AT_FIRST or self._random.chance(POST_SHARE):
            post = f"post-{self._event_count}"
            self._posts.append(post)
            kind = "post"
        else:
            post = self._popular_post()
            kind = "comment" if self._random.chance(COMMENT_SHARE) else "like"
        self._recent.append(post)
        self._send(post, self._value(kind, post))

    def _popular_post(self) -> str:
        seen = self._posts if self._random.chance(FRESH_SHARE) else self._recent
        return seen[self._random.below(len(seen))]

    def _value(self, kind: str, post: str) -> bytes:
        is_ahead = self._random.chance(CLOCK_AHEAD_SHARE)
        event = {
            "event_id": f"{self._run}-{self._event_count}",
            "kind": kind,
            "post_id": post,
            "user_id": f"user-{self._random.below(USERS)}",
            "at_ms": int(self._now_ms) + is_ahead * CLOCK_AHEAD_MS,
        }
        value = json.dumps(event).encode()
        return value[: len(value) // 2] if self._random.chance(CUT_OFF_SHARE) else value

    def _send(self, post: str, value: bytes) -> None:
        arrival_ms = self._now_ms + self._delay_ms()
        self._schedule(arrival_ms, post, value)
        if self._random.chance(REPEATED_SHARE):
            self._schedule(arrival_ms + self._random.exponential(REPEATED_DELAY_MS), post, value)

    def _delay_ms(self) -> float:
        if self._random.chance(OVERNIGHT_SHARE):
            return self._random.exponential(OVERNIGHT_DELAY_MS)
        is_in_tunnel = self._random.chance(TUNNEL_SHARE)
        return self._random.exponential(TUNNEL_DELAY_MS if is_in_tunnel else NETWORK_DELAY_MS)

    def _schedule(self, arrival_ms: float, post: str, value: bytes) -> None:
        self._sent += 1
        record = GeneratedRecord(post.encode(), value, int(arrival_ms))
        heappush(self._in_flight, (record.timestamp_ms, self._sent, record))
