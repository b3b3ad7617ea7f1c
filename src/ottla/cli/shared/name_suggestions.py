"""Failures for names that do not exist, with a suggestion of a similar name.

`connect.run_with_cluster` calls `with_suggestion` for topics and groups, so commands need not.
Commands call `no_such` for names that are known without a cluster.
"""

from collections.abc import Iterable
from contextlib import suppress

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.client.admin.cluster import Admin
from ottla.client.admin.groups import list_all_groups
from ottla.client.errors import ClientError, Refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.nearest import did_you_mean

TOPIC, GROUP = "topic", "group"

_KINDS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: TOPIC,
    ErrorCode.UNKNOWN_TOPIC_ID: TOPIC,
    ErrorCode.GROUP_ID_NOT_FOUND: GROUP,
}


def no_such(
    kind: str, name: str, known: Iterable[str], listed_by: str, *, why: str | None = None
) -> Failure:
    """The Failure for a missing name; `listed_by` shows the existing names."""
    return Failure(
        f"no {kind} '{name}'{did_you_mean(name, known)}",
        why=why,
        advice=f"{listed_by} shows the existing ones",
        exit_code=ExitCode.NOT_FOUND,
    )


def no_such_topic(name: str, known: Iterable[str]) -> Failure:
    return no_such(TOPIC, name, known, "`ottla topic list`")


def wrong_name(refused: Refused, known: Iterable[str] = ()) -> Failure | None:
    """The Failure for a missing topic or group; None for other refusals."""
    kind = _KINDS.get(refused.code)
    # The subject of a refusal is "topic orders", "group g" or "partition orders-7".
    named, _, name = refused.what.partition(" ")
    if kind is None or named != kind:
        return None
    return no_such(kind, name, known, f"`ottla {kind} list`")


async def with_suggestion(refused: Refused, router: Router) -> Failure | Refused:
    """The error to raise: a Failure for a missing topic or group, otherwise the refusal itself."""
    if wrong_name(refused) is None:
        return refused
    known: list[str] = []
    # The failure is useful without the list of names too.
    with suppress(ClientError):
        if _KINDS[refused.code] is TOPIC:
            known = [topic.name for topic in await Admin(router).list_topics()]
        else:
            known = [group.group_id for group in await list_all_groups(router)]
    return wrong_name(refused, known) or refused
