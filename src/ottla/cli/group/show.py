"""`ottla group list` and `describe`."""

from collections.abc import Collection, Mapping, Sequence

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import Row, RowWriter
from ottla.client.admin.group_offsets import CommittedOffset, committed_offsets
from ottla.client.admin.groups import Group, describe_group, list_all_groups
from ottla.client.admin.lag import Lag, lags
from ottla.client.errors import ClientError
from ottla.client.reading.offsets import list_offsets
from ottla.client.routing.outcomes import Outcomes
from ottla.client.routing.router import Router
from ottla.nearest import did_you_mean
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# The states of classic groups, of consumer groups, and of group types of other clusters.
STATES = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead"),
    *("Assigning", "Reconciling", "NotReady", "Unknown"),
)


def check_states(states: Sequence[str]) -> None:
    """Failure if one is not a group state."""
    known = {state.casefold() for state in STATES}
    for state in states:
        if state.casefold() not in known:
            raise Failure(
                f"no group state '{state}'{did_you_mean(state, STATES)}",
                advice=f"use one of {', '.join(STATES)}",
                exit_code=ExitCode.NOT_FOUND,
            )


async def list_groups(router: Router, states: Sequence[str], writer: RowWriter) -> None:
    wanted = {state.casefold() for state in states}
    for group in await list_all_groups(router):
        if wanted and group.state.casefold() not in wanted:
            continue
        writer.write(
            {
                "kind": "group",
                "name": group.group_id,
                "type": group.type or None,
                "state": group.state or None,
                "protocol_type": group.protocol_type or None,
            }
        )
    writer.close()


async def describe_groups(
    router: Router, names: Sequence[str], writer: RowWriter, *, now_ms: int
) -> None:
    """Writes rows of groups, then of members, then of partitions. Refused if a group is missing."""
    groups = [await describe_group(router, name) for name in dict.fromkeys(names)]
    members: list[Row] = []
    partitions: list[Row] = []
    for group in groups:
        committed = await committed_offsets(router, group.group_id)
        group_lags = await lags(router, {each: found.offset for each, found in committed.items()})
        writer.write(_group_row(group, group_lags, now_ms))
        members += _member_rows(group)
        ends = await _ends(router, _owners(group).keys() - committed.keys())
        partitions += _partition_rows(group, committed, group_lags, ends, now_ms)
    for row in (*members, *partitions):
        writer.write(row)
    writer.close()


def _group_row(group: Group, group_lags: Outcomes[Lag], now_ms: int) -> Row:
    """The group with its total lag in records, and the age of the oldest one."""
    known = [each for each in group_lags.values() if not isinstance(each, ClientError)]
    ages = [age for each in known if (age := each.age_ms(now_ms)) is not None]
    return {
        "kind": "group",
        "name": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type or None,
        "assignor": group.assignor or None,
        "coordinator": str(group.coordinator),
        "members": len(group.members),
        "lag": sum(each.records for each in known) if known else None,
        "lag_seconds": max(ages) // 1000 if ages else None,
    }


def _member_rows(group: Group) -> list[Row]:
    return [
        {
            "kind": "member",
            "group": group.group_id,
            "member": member.member_id,
            "instance": member.instance_id,
            "client": member.client_id,
            "host": member.host,
            "partitions": None if member.partitions is None else len(member.partitions),
        }
        for member in sorted(group.members)
    ]


def _owners(group: Group) -> dict[TopicPartition, str]:
    return {
        partition: member.member_id
        for member in group.members
        for partition in member.partitions or ()
    }


async def _ends(
    router: Router, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The end offsets of partitions without a committed offset, if their leaders respond."""
    outcomes = await list_offsets(router, dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {
        partition: outcome.offset
        for partition, outcome in outcomes.items()
        if not isinstance(outcome, ClientError)
    }


def _partition_rows(
    group: Group,
    committed: Mapping[TopicPartition, CommittedOffset],
    group_lags: Outcomes[Lag],
    ends: Mapping[TopicPartition, int],
    now_ms: int,
) -> list[Row]:
    """One row per partition with a committed offset or an owner."""
    owners = _owners(group)
    rows: list[Row] = []
    for partition in sorted({*committed, *owners}):
        offset, lag = committed.get(partition), group_lags.get(partition)
        # A deleted topic has a committed offset but no lag.
        seen = None if lag is None or isinstance(lag, ClientError) else lag
        age_ms = None if seen is None else seen.age_ms(now_ms)
        rows.append(
            {
                "kind": "partition",
                "group": group.group_id,
                "partition": str(partition),
                "committed": None if offset is None else offset.offset,
                "end_offset": ends.get(partition) if seen is None else seen.end_offset,
                "lag": None if seen is None else seen.records,
                "lag_seconds": None if age_ms is None else age_ms // 1000,
                "owner": owners.get(partition),
                "metadata": (offset.metadata or None) if offset else None,
            }
        )
    return rows
