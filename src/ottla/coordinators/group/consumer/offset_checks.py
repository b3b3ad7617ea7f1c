"""Which offsets a member of a consumer group may commit and fetch, by the epoch that it names."""

from ottla.coordinators.group.consumer.member import ConsumerGroupMember
from ottla.coordinators.group.consumer.reconciliation import assigned_since, revoking_since
from ottla.coordinators.group.offsets import Commit, CommitCheck, anything
from ottla.errors import ErrorCode, PeerError

# Before it, OffsetCommit had no room for a member's epoch; a classic member has a generation.
_EPOCHS_SINCE = 9


def commit_check(member: ConsumerGroupMember, epoch: int, version: int) -> CommitCheck:
    """What a member may commit that names this epoch; PeerError if nothing.

    One that is behind, since its commit was under way when it moved on, may commit for partitions
    that it has had since that epoch or longer (KIP-1251).
    """
    if version < _EPOCHS_SINCE and not member.is_classic:
        raise PeerError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group"
            " protocol",
        )
    known = member.current.epoch
    if epoch == known:
        return anything
    if epoch > known:
        raise PeerError(
            _out_of_date(member), f"Received epoch {epoch} is newer than current epoch {known}."
        )
    since = {**revoking_since(member.current), **assigned_since(member.current)}

    def check(commit: Commit) -> ErrorCode:
        given = since.get((commit.topic_id, commit.partition))
        is_its_own = given is not None and epoch >= given
        return ErrorCode.NONE if is_its_own else _out_of_date(member)

    return check


def check_fetch(member: ConsumerGroupMember, epoch: int) -> None:
    """Only who is up to date may ask where to go on."""
    if epoch != member.current.epoch:
        raise PeerError(
            _out_of_date(member),
            f"The received epoch {epoch} does not match the expected member epoch"
            f" {member.current.epoch}.",
        )


def _out_of_date(member: ConsumerGroupMember) -> ErrorCode:
    """As the member's own protocol says it."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
