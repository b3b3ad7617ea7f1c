"""Names of things that do not exist: every command says which one was probably meant.

What is asked of a cluster goes through `reaching`, which calls `in_place_of`, so that no command
has to see to it. Names that are known without a cluster are for the command: `no_such`.
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
    """`listed_by` is what shows the names that there are."""
    return Failure(
        f"no {kind} '{name}'{did_you_mean(name, known)}",
        why=why,
        advice=f"{listed_by} shows what there is",
        exit_code=ExitCode.NOT_FOUND,
    )


def no_such_topic(name: str, known: Iterable[str]) -> Failure:
    return no_such(TOPIC, name, known, "`ottla topic list`")


def wrong_name(refused: Refused, known: Iterable[str] = ()) -> Failure | None:
    """The failure for a topic or a group that a broker does not have; None for other refusals."""
    kind = _KINDS.get(refused.code)
    # A refusal says what it is about as "topic orders", "group g", "partition orders-7".
    named, _, name = refused.what.partition(" ")
    if kind is None or named != kind:
        return None
    return no_such(kind, name, known, f"`ottla {kind} list`")


async def in_place_of(refused: Refused, router: Router) -> Failure | Refused:
    """What is to be raised: the refusal itself unless something was named that does not exist."""
    if wrong_name(refused) is None:
        return refused
    known: list[str] = []
    # Without the list the name is still wrong.
    with suppress(ClientError):
        if _KINDS[refused.code] is TOPIC:
            known = [topic.name for topic in await Admin(router).list_topics()]
        else:
            known = [group.group_id for group in await list_all_groups(router)]
    return wrong_name(refused, known) or refused
