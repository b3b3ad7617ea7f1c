"""A decision of a group: its records are those of groups and offsets, and it has no effects."""

from typing import TYPE_CHECKING, Never, TypeAlias

from ottla.coordinators.runtime import decision

if TYPE_CHECKING:
    from ottla.coordinators.group.records import Record

    Decision: TypeAlias = decision.Decision[Record, Never]
else:
    # A class with parameters takes longer to call than the class itself.
    Decision = decision.Decision
