"""Executes a plan: throttle, begin, wait until it is done, check, elect preferred leaders."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.cli.reassignment.plan import Move, ids_text, named, summary
from ottla.cli.reassignment.progress import Left, progress
from ottla.cli.reassignment.survey import replica_sizes
from ottla.cli.reassignment.throttle import (
    Throttled,
    restore_throttle,
    set_throttle,
    throttle_of,
)
from ottla.cli.shared.failure import Failure
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.admin.cluster import Admin
from ottla.client.admin.leader_elections import ElectionType, elect_leaders
from ottla.client.admin.reassignments import (
    Reassignment,
    begin_reassignments,
    cancel_reassignments,
    list_reassignments,
)
from ottla.client.errors import ClientError, Refused
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Topic
from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition

POLL_FIRST_S = 0.1
POLL_MAX_S = 1.0
# How long brokers may know less than the controller.
STALE_METADATA_S = 2.0


@dataclass(frozen=True, slots=True)
class Execution:
    """How a plan is executed. `cancel_command` is shown to a user who stops waiting."""

    cancel_command: str
    throttle_bytes_per_s: int | None = None


async def execute(router: Router, moves: Sequence[Move], how: Execution) -> None:
    """Returns when the replicas are where the plan wants them.

    If a partition is refused, all begun ones are cancelled. The failure names those that the
    cluster does not take back: their former replicas are on brokers that are down. The throttle is
    restored in any case, except if the user stops waiting: the reassignment goes on then.
    """
    throttled: list[Throttled] = []
    if how.throttle_bytes_per_s is not None:
        live = list(router.topology.brokers)
        wanted = throttle_of(moves, live, how.throttle_bytes_per_s)
        throttled = await set_throttle(router, wanted)
    try:
        await _begin(router, moves)
        say(f"begun: {summary(moves)}")
        await _wait(router, moves)
    except asyncio.CancelledError:
        _say_how_to_go_on(how, is_throttled=bool(throttled))
        raise
    except BaseException:
        await restore_throttle(router, throttled)
        raise
    await restore_throttle(router, throttled)
    topics = await _check_targets(router, moves)
    await _elect_preferred(router, moves, topics)
    say(f"done: {counted(len(moves), 'partition')} have their replicas")


async def _begin(router: Router, moves: Sequence[Move]) -> None:
    """Begins all moves or, if one is refused, none. Failure, which names what cannot be undone."""
    outcomes = await begin_reassignments(router, {move.name: move.after for move in moves})
    refused = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
    if not refused:
        return
    begun = [name for name in outcomes if name not in refused]
    kept = await _take_back(router, begun)
    first = next(iter(refused.values()))
    raise Failure(
        f"{first.what} was refused",
        why=first.message or first.code.name,
        advice=_after_refusal(len(refused), len(moves), kept),
    )


async def _take_back(
    router: Router, begun: Sequence[TopicPartition]
) -> dict[TopicPartition, ClientError]:
    """Cancels begun moves. Those that could not be cancelled, each with its reason."""
    if not begun:
        return {}
    try:
        outcomes = await cancel_reassignments(router, begun)
    except ClientError as error:
        return dict.fromkeys(begun, error)
    return {name: outcome for name, outcome in outcomes.items() if outcome is not None}


def _after_refusal(refused: int, planned: int, kept: Mapping[TopicPartition, ClientError]) -> str:
    """What a plan that was refused in part has changed, and how to go on."""
    share = f"{counted(refused, 'partition')} of {planned} could not be moved"
    if not kept:
        return f"nothing was changed; {share}, make the plan again"
    reason = next(iter(kept.values()))
    why = reason.message or reason.code.name if isinstance(reason, Refused) else str(reason)
    return (
        f"{share}; {named(list(kept))} could not be taken back ({why}):"
        " `ottla topic reassign --status` shows what still moves; make the plan again when it has"
        " ended"
    )


async def _wait(router: Router, moves: Sequence[Move]) -> None:
    by_name = {move.name: move for move in moves}
    total = sum(move.bytes_to_copy or 0 for move in moves)
    pause_s = POLL_FIRST_S
    with progress(Left(len(moves), total)) as show:
        while moving := await _still_moving(router, by_name):
            show(Left(len(moving), await _bytes_left(router, moving, by_name)))
            await asyncio.sleep(pause_s)
            pause_s = min(POLL_MAX_S, 2 * pause_s)


async def _still_moving(
    router: Router, moves: Mapping[TopicPartition, Move]
) -> dict[TopicPartition, Reassignment]:
    running = await list_reassignments(router)
    return {name: each for name, each in running.items() if name in moves}


async def _bytes_left(
    router: Router,
    moving: Mapping[TopicPartition, Reassignment],
    moves: Mapping[TopicPartition, Move],
) -> int:
    sizes = await replica_sizes(router, {each for move in moving.values() for each in move.adding})
    return sum(
        max(0, (moves[name].size_bytes or 0) - sizes.get(broker, {}).get(name, 0))
        for name, each in moving.items()
        for broker in each.adding
    )


async def _check_targets(router: Router, moves: Sequence[Move]) -> dict[str, Topic]:
    """Failure if somebody has cancelled or replaced a move. A deleted topic is only named."""
    give_up_s = time.monotonic() + STALE_METADATA_S
    while True:
        found = await Admin(router).describe_topics(sorted({move.name.topic for move in moves}))
        topics = {name: topic for name, topic in found.items() if isinstance(topic, Topic)}
        elsewhere = {
            move.name: topics[move.name.topic].partitions[move.name.partition].replicas
            for move in moves
            if move.name.topic in topics
            and topics[move.name.topic].partitions[move.name.partition].replicas != move.after
        }
        if not elsewhere or time.monotonic() > give_up_s:
            break
        # A broker may be behind the controller for a moment.
        await asyncio.sleep(POLL_FIRST_S)
    for topic in sorted(found.keys() - topics.keys()):
        say(f"warning: topic {topic} was deleted meanwhile")
    for name, replicas in elsewhere.items():
        raise Failure(
            f"{named(list(elsewhere))} did not get the planned replicas",
            why=f"somebody cancelled or replaced the move; {name} has replicas"
            f" {ids_text(replicas)}",
            advice="make the plan again",
        )
    return topics


async def _elect_preferred(
    router: Router, moves: Sequence[Move], topics: Mapping[str, Topic]
) -> None:
    """The new preferred leaders lead at once, not when the controller looks at them next."""
    due = [
        move.name
        for move in moves
        if move.name.topic in topics
        and topics[move.name.topic].partitions[move.name.partition].leader != move.after[0]
    ]
    if not due:
        return
    try:
        outcomes = await elect_leaders(router, due, ElectionType.PREFERRED)
    except ClientError as error:
        say(f"warning: preferred leaders were not elected: {error}")
        return
    for outcome in outcomes.values():
        if isinstance(outcome, Refused) and outcome.code != ErrorCode.ELECTION_NOT_NEEDED:
            say(f"warning: {outcome}")


def _say_how_to_go_on(how: Execution, *, is_throttled: bool) -> None:
    say("the reassignment goes on without this command")
    say("  `ottla topic reassign --status` shows it")
    say(f"  `{how.cancel_command}` takes it back")
    if is_throttled:
        say("  `ottla topic reassign --status --yes` removes the throttle when it is done")
