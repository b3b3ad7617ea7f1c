"""The nodes of one ZooKeeper server, and the transactions that change them."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.metadata.zookeeper.znodes import (
    ANY_VERSION,
    NO_SESSION,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    Znode,
)


class Transaction(NamedTuple):
    """One change in the order of all changes; nothing but its zxid if an operation was refused."""

    zxid: int
    session_id: int
    operations: tuple[Operation, ...] = ()
    refused: int | None = None
    begins_session: bool = False
    ends_session: bool = False


class ZnodeTree:
    """`zxid` is of the last transaction that was applied."""

    def __init__(self, nodes: dict[str, Znode] | None = None, zxid: int = 0) -> None:
        self.nodes = {} if nodes is None else nodes
        self.zxid = zxid

    def copy(self) -> "ZnodeTree":
        return ZnodeTree(dict(self.nodes), self.zxid)

    def children(self, path: str) -> tuple[str, ...]:
        prefix = f"{path}/"
        names = (each.removeprefix(prefix) for each in self.nodes if each.startswith(prefix))
        return tuple(sorted(name for name in names if "/" not in name))

    def refused(self, operations: Sequence[Operation]) -> int | None:
        """The index of the first operation that cannot be applied."""
        scratch = self.copy()
        for index, operation in enumerate(operations):
            if not scratch._allows(operation):
                return index
            scratch._change(operation, self.zxid + 1, NO_SESSION)
        return None

    def apply(self, transaction: Transaction) -> list[str]:
        """The paths of the nodes that were created, changed or deleted."""
        self.zxid = transaction.zxid
        if transaction.ends_session:
            paths = [
                path
                for path, node in self.nodes.items()
                if node.owner == transaction.session_id != NO_SESSION
            ]
            for path in paths:
                del self.nodes[path]
            return paths
        if transaction.refused is not None:
            return []
        for operation in transaction.operations:
            self._change(operation, transaction.zxid, transaction.session_id)
        return [each.path for each in transaction.operations if not isinstance(each, Check)]

    def _allows(self, operation: Operation) -> bool:
        node = self.nodes.get(operation.path)
        if isinstance(operation, Create):
            parent = operation.path.rpartition("/")[0]
            if parent and parent not in self.nodes:
                raise RuntimeError(f"{operation.path} has no parent")
            return node is None
        return node is not None and operation.version in (node.version, ANY_VERSION)

    def _change(self, operation: Operation, zxid: int, session_id: int) -> None:
        if isinstance(operation, Create):
            owner = session_id if operation.is_ephemeral else NO_SESSION
            self.nodes[operation.path] = Znode(operation.data, zxid, 0, owner)
        elif isinstance(operation, SetData):
            node = self.nodes[operation.path]
            self.nodes[operation.path] = node._replace(
                data=operation.data, version=node.version + 1
            )
        elif isinstance(operation, Delete):
            del self.nodes[operation.path]
