"""The decision of a group: its records are those of `group.records`, and it has no effects."""

from typing import TYPE_CHECKING, Never, TypeAlias

from ottla.coordinators.runtime import decision

if TYPE_CHECKING:
    from ottla.coordinators.group.records import Record

    Decision: TypeAlias = decision.Decision[Record, Never]
else:
    # Calling a parameterised class takes longer than calling the class.
    Decision = decision.Decision
