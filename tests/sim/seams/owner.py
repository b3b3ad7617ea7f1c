"""Ownership on the simulated loop: the process that a task, a callback or a timer belongs to.

The owner is part of the context. Tasks and callbacks inherit it from the code that creates them, as
all of a process does from its first instruction. Code without an owner belongs to the simulation,
or to a kernel: it is never paused and never dies.
"""

import asyncio
from contextvars import Context, ContextVar, copy_context


class Owner:
    """One process. `SimLoop` pauses, resumes and kills it."""

    __slots__ = ("held", "is_dead", "is_paused", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_paused = False
        self.is_dead = False
        # What has become due during the pause, in that order.
        self.held: list[asyncio.Handle] = []

    def __repr__(self) -> str:
        return f"<Owner {self.name}>"

    def context(self) -> Context:
        """A context whose tasks and callbacks belong to this owner."""
        context = copy_context()
        context.run(OWNER.set, self)
        return context

    def may_run(self, handle: asyncio.Handle) -> bool:
        """Whether a callback that is due runs now. One that is not yet to run is held.

        The callbacks of a dead process run, since its cancelled tasks must unwind, but its timers
        never fire again.
        """
        if self.is_dead:
            return not isinstance(handle, asyncio.TimerHandle)
        if self.is_paused:
            self.held.append(handle)
            return False
        return True


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


def owner_in(context: Context | None) -> Owner | None:
    """The owner in a context; None stands for the current one."""
    return OWNER.get() if context is None else context.get(OWNER)


def kernel_context() -> Context:
    """A context without an owner: its callbacks run whatever becomes of the processes."""
    return Context()
