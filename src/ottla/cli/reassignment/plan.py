"""A plan of reassignments: its checks, its rows and its JSON."""

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.cli.reassignment.plan_file import plan_text
from ottla.cli.reassignment.survey import Survey, replica_sizes
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.listing import ListingFormat, listing_writer
from ottla.cli.shared.output import Row
from ottla.cli.shared.plurals import counted
from ottla.cli.shared.sizes import size_text
from ottla.client.routing.router import Router
from ottla.protocol.topic_partition import TopicPartition

NAMED_MAX = 3


class Move(NamedTuple):
    """New replicas of a partition. `size_bytes` is the size of one replica, None if unknown."""

    name: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int | None

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(each for each in self.after if each not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(each for each in self.before if each not in self.after)

    @property
    def bytes_to_copy(self) -> int | None:
        return None if self.size_bytes is None else self.size_bytes * len(self.adding)


async def make_moves(
    router: Router, survey: Survey, targets: Mapping[TopicPartition, tuple[int, ...]]
) -> list[Move]:
    """The moves to these targets. Failure if one of them cannot begin now."""
    partitions = survey.partitions
    running = [name for name in targets if name in survey.moving]
    if running:
        raise Failure(
            f"replicas of {named(running)} are moving already",
            advice="`ottla topic reassign --status` shows them; `--cancel` takes them back",
        )
    leaderless = [name for name in targets if partitions[name].is_unavailable]
    if leaderless:
        raise Failure(
            f"nobody leads {named(leaderless)}",
            why="its records could not be copied",
            advice="start its brokers; `ottla topic describe --unavailable` shows which",
        )
    sizes = await replica_sizes(router, (partitions[name].leader for name in targets))
    return [
        Move(
            name,
            partitions[name].replicas,
            target,
            sizes.get(partitions[name].leader, {}).get(name),
        )
        for name, target in sorted(targets.items())
    ]


def write_plan(moves: Sequence[Move], format_: ListingFormat) -> None:
    """Writes the plan. As JSON it is what Kafka's tool takes, and `topic reassign --plan`."""
    if format_ is ListingFormat.JSON:
        sys.stdout.write(plan_text({move.name: move.after for move in moves}))
        sys.stdout.flush()
        return
    writer = listing_writer(format_, named="partition")
    for move in moves:
        writer.write(_row(move))
    writer.close()


def _row(move: Move) -> Row:
    return {
        "kind": "partition",
        "name": str(move.name),
        "replicas": ids_text(move.before),
        "will_have": ids_text(move.after),
        "adding": ids_text(move.adding),
        "removing": ids_text(move.removing),
        "bytes_to_copy": move.bytes_to_copy,
    }


def summary(moves: Sequence[Move]) -> str:
    """What the plan does in all, for a line on standard error."""
    copies = sum(len(move.adding) for move in moves)
    removals = sum(len(move.removing) for move in moves)
    size_bytes = sum(move.bytes_to_copy or 0 for move in moves)
    parts = []
    if copies:
        parts.append(f"copies {counted(copies, 'replica')}, {size_text(size_bytes)}")
    if removals:
        parts.append(f"removes {counted(removals, 'replica')}")
    if not parts:
        parts.append("changes preferred leaders")
    return f"{' and '.join(parts)}, in {counted(len(moves), 'partition')}"


def named(partitions: Sequence[TopicPartition]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(map(str, partitions[:NAMED_MAX]))
    more = len(partitions) - NAMED_MAX
    return shown if more <= 0 else f"{shown} and {more} more"


def ids_text(broker_ids: Sequence[int]) -> str:
    return ",".join(map(str, broker_ids))
