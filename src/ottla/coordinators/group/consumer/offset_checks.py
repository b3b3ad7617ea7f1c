"""Which offsets a member of a consumer group may commit and fetch, by the epoch in its request."""

from ottla.coordinators.group.consumer.member import ConsumerGroupMember
from ottla.coordinators.group.consumer.reconciliation import assigned_since, revoking_since
from ottla.coordinators.group.offsets import CommitCheck, PartitionCommit, accept_any
from ottla.errors import ErrorCode, PeerError

# From this version on OffsetCommit has a member epoch; before, a generation of a classic member.
_EPOCHS_SINCE = 9


def commit_check(
    member: ConsumerGroupMember, epoch: int, version: int, *, is_transactional: bool = False
) -> CommitCheck:
    """The check of each partition of a commit with this epoch. PeerError if all are refused.

    A commit that was sent before the member's epoch rose has an older epoch. It is accepted for
    partitions that were assigned at that epoch or earlier (KIP-1251). TxnOffsetCommit, of any
    version, has the same code for members of both protocols.
    """
    if version < _EPOCHS_SINCE and not (member.is_classic or is_transactional):
        raise PeerError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group"
            " protocol",
        )
    outdated = ErrorCode.ILLEGAL_GENERATION if is_transactional else _out_of_date(member)
    known = member.current.epoch
    if epoch == known:
        return accept_any
    if epoch > known:
        raise PeerError(outdated, f"Received epoch {epoch} is newer than current epoch {known}.")
    since = {**revoking_since(member.current), **assigned_since(member.current)}

    def check(commit: PartitionCommit) -> ErrorCode:
        assigned_epoch = since.get((commit.topic_id, commit.partition))
        is_owned = assigned_epoch is not None and epoch >= assigned_epoch
        return ErrorCode.NONE if is_owned else outdated

    return check


def check_fetch(member: ConsumerGroupMember, epoch: int) -> None:
    """PeerError unless the request has the member's current epoch."""
    if epoch != member.current.epoch:
        raise PeerError(
            _out_of_date(member),
            f"The received epoch {epoch} does not match the expected member epoch"
            f" {member.current.epoch}.",
        )


def _out_of_date(member: ConsumerGroupMember) -> ErrorCode:
    """The code for an outdated epoch in the member's own protocol."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
