"""A social medium's day, made up: posts that rise and fade, and networks that are what they are.

Events come in late from phones that were out of reach, twice where an answer was lost, cut off
where a connection broke, and from clocks that are wrong.
"""

import json
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush

from ottla.spark.pipelines.catalogue import Made
from ottla.spark.pipelines.seeded_random import Dice

USERS = 20_000
# Of so many last reactions, most are answered by another one to the same post: what is seen by many
# is seen by more, until it falls out of sight.
SEEN_MAX = 400
POSTS_AT_FIRST = 20
POST_SHARE, COMMENT_SHARE, FRESH_SHARE = 0.02, 0.12, 0.15

NETWORK_DELAY_MS = 300.0
TUNNEL_SHARE, TUNNEL_DELAY_MS = 0.04, 30_000.0
OVERNIGHT_SHARE, OVERNIGHT_DELAY_MS = 0.004, 900_000.0
REPEATED_SHARE, REPEATED_DELAY_MS = 0.02, 5_000.0
CUT_OFF_SHARE = 0.002
CLOCK_AHEAD_SHARE, CLOCK_AHEAD_MS = 0.001, 86_400_000


def generate(seed: int, start_ms: int, events_per_s: float) -> Iterator[Made]:
    """Endless, in the order in which records come in. The same arguments give the same records."""
    return _Medium(seed, start_ms, events_per_s).records()


class _Medium:
    """All that has happened, as far as it has a bearing on what happens next."""

    def __init__(self, seed: int, start_ms: int, events_per_s: float) -> None:
        self._dice = Dice(seed)
        # No two runs share an event's id, unless they are the same run.
        self._run = f"{seed:x}-{start_ms:x}"
        self._now_ms = float(start_ms)
        self._mean_ms = 1000 / events_per_s
        self._happened = 0
        self._posts: deque[str] = deque(maxlen=SEEN_MAX)
        self._seen: deque[str] = deque(maxlen=SEEN_MAX)
        # What is under way; the number keeps those in order that come in at once.
        self._coming: list[tuple[int, int, Made]] = []
        self._sent = 0

    def records(self) -> Iterator[Made]:
        while True:
            self._now_ms += self._dice.pause(self._mean_ms)
            while self._coming and self._coming[0][0] <= self._now_ms:
                yield heappop(self._coming)[2]
            self._happen()

    def _happen(self) -> None:
        self._happened += 1
        if len(self._posts) < POSTS_AT_FIRST or self._dice.chance(POST_SHARE):
            post = f"post-{self._happened}"
            self._posts.append(post)
            kind = "post"
        else:
            post = self._noticed()
            kind = "comment" if self._dice.chance(COMMENT_SHARE) else "like"
        self._seen.append(post)
        self._send(post, self._value(kind, post))

    def _noticed(self) -> str:
        seen = self._posts if self._dice.chance(FRESH_SHARE) else self._seen
        return seen[self._dice.below(len(seen))]

    def _value(self, kind: str, post: str) -> bytes:
        is_ahead = self._dice.chance(CLOCK_AHEAD_SHARE)
        event = {
            "event_id": f"{self._run}-{self._happened}",
            "kind": kind,
            "post_id": post,
            "user_id": f"user-{self._dice.below(USERS)}",
            "at_ms": int(self._now_ms) + is_ahead * CLOCK_AHEAD_MS,
        }
        value = json.dumps(event).encode()
        return value[: len(value) // 2] if self._dice.chance(CUT_OFF_SHARE) else value

    def _send(self, post: str, value: bytes) -> None:
        came_ms = self._now_ms + self._delay_ms()
        self._come(came_ms, post, value)
        if self._dice.chance(REPEATED_SHARE):
            self._come(came_ms + self._dice.pause(REPEATED_DELAY_MS), post, value)

    def _delay_ms(self) -> float:
        if self._dice.chance(OVERNIGHT_SHARE):
            return self._dice.pause(OVERNIGHT_DELAY_MS)
        is_in_tunnel = self._dice.chance(TUNNEL_SHARE)
        return self._dice.pause(TUNNEL_DELAY_MS if is_in_tunnel else NETWORK_DELAY_MS)

    def _come(self, came_ms: float, post: str, value: bytes) -> None:
        self._sent += 1
        made = Made(post.encode(), value, int(came_ms))
        heappush(self._coming, (made.timestamp_ms, self._sent, made))
