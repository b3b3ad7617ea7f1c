"""Failures for names that do not exist, with a suggestion of a similar name.

`connect.run_with_cluster` calls `with_suggestion` for names in a cluster, so commands need not.
Commands call `no_such` for names that are known without a cluster.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.client.admin.cluster import Admin
from ottla.client.admin.groups import list_all_groups
from ottla.client.errors import ClientError, Refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.nearest import did_you_mean


class _Kind(NamedTuple):
    """Something with a name. The subject of a refusal begins with `noun`, as in "group g"."""

    noun: str
    listed_by: str
    names: Callable[[Router], Awaitable[Iterable[str]]]


async def _topic_names(router: Router) -> list[str]:
    return [topic.name for topic in await Admin(router).list_topics()]


async def _group_names(router: Router) -> list[str]:
    return [group.group_id for group in await list_all_groups(router)]


async def _transactional_ids(router: Router) -> list[str]:
    # Imported here: only `ottla txn` needs it.
    from ottla.client.admin.transactions import list_all_transactions

    return [each.transactional_id for each in await list_all_transactions(router)]


_TOPIC = _Kind("topic", "`ottla topic list`", _topic_names)
_KINDS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _TOPIC,
    ErrorCode.UNKNOWN_TOPIC_ID: _TOPIC,
    ErrorCode.GROUP_ID_NOT_FOUND: _Kind("group", "`ottla group list`", _group_names),
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: _Kind(
        "transactional id", "`ottla txn list`", _transactional_ids
    ),
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
    return no_such(_TOPIC.noun, name, known, _TOPIC.listed_by)


def wrong_name(refused: Refused, known: Iterable[str] = ()) -> Failure | None:
    """The Failure for a missing topic, group or transactional id; None for other refusals."""
    kind = _KINDS.get(refused.code)
    # "partition orders-7" is not the name of a topic.
    if kind is None or not refused.what.startswith(f"{kind.noun} "):
        return None
    return no_such(kind.noun, refused.what.removeprefix(f"{kind.noun} "), known, kind.listed_by)


async def with_suggestion(refused: Refused, router: Router) -> Failure | Refused:
    """The error to raise: a Failure for a missing name, otherwise the refusal itself."""
    if wrong_name(refused) is None:
        return refused
    known: Iterable[str] = ()
    # The failure is useful without the list of names too.
    with suppress(ClientError):
        known = await _KINDS[refused.code].names(router)
    return wrong_name(refused, known) or refused
