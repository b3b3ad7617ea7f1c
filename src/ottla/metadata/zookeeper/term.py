"""A term of a controller: its fence, and the writes that only its holder can make."""

from dataclasses import dataclass

from ottla.metadata.store import Fence, Fenced
from ottla.metadata.zookeeper.layout import CONTROLLER_EPOCH
from ottla.metadata.zookeeper.znodes import Check, ConnectionLost, Operation, Refused, Znodes


@dataclass(slots=True)
class Term:
    """`epoch_version` is the version of /controller_epoch since this election.

    `head` is the offset of the last entry, and `head_version` the version of /log/head. They are
    exact, because nobody else can write in this term.
    """

    fence: Fence
    epoch_version: int
    head: int
    head_version: int

    def fenced(self) -> Fenced:
        return Fenced(f"{self.fence} is void: another controller was elected")


async def try_fenced(znodes: Znodes, term: Term, *operations: Operation) -> bool:
    """Applies the operations if no other controller was elected since; Fenced otherwise.

    False if the outcome is unknown, or if one of the operations was refused.
    """
    try:
        await znodes.multi((Check(CONTROLLER_EPOCH, term.epoch_version), *operations))
    except ConnectionLost:
        return False
    except Refused as refused:
        if refused.index == 0:
            raise term.fenced() from None
        return False
    return True
