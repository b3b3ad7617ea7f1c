"""Checks of a cluster: whether it responds, its API versions, access to every broker, and whether
all partitions have a leader and all their replicas.
"""

from ottla.cli.doctor.cluster import check_brokers_together
from ottla.cli.doctor.finding import Finding, FindingState
from ottla.cli.shared.plurals import counted
from ottla.client.admin.cluster import Admin
from ottla.client.connection.connection import Connection
from ottla.client.errors import ClientError
from ottla.client.routing.router import Router
from ottla.protocol.messages import APIS

# The APIs that commands use: without them some commands do not work.
REQUIRED_APIS = tuple(APIS[key] for key in (0, 1, 2, 3, 19, 20, 21, 32, 35, 37, 60))


async def check_cluster(router: Router, *, must_answer: bool) -> list[Finding]:
    """One finding if no broker responds, otherwise one per check."""
    try:
        connection = await router.any_broker()
        await router.refresh(())
    except ClientError as error:
        state = FindingState.BROKEN if must_answer else FindingState.LIMITED
        advice = "`ottla up` starts one; --bootstrap HOST:PORT names another one"
        return [Finding("broker", state, f"no response: {error}", advice)]
    brokers = router.topology.brokers
    return [
        Finding(
            "broker",
            FindingState.OK,
            f"{connection.address} responds, one of {len(brokers)} in the cluster",
        ),
        _check_versions(connection),
        *[await _check_address(router, node_id) for node_id in sorted(brokers)],
        *await check_brokers_together(router),
        await _check_partitions(router),
    ]


def _check_versions(connection: Connection) -> Finding:
    lacking = [api.name for api in REQUIRED_APIS if not connection.speaks(api)]
    if lacking:
        return Finding("versions", FindingState.LIMITED, f"the broker lacks {', '.join(lacking)}")
    return Finding("versions", FindingState.OK, f"all {len(REQUIRED_APIS)} APIs that commands use")


async def _check_address(router: Router, node_id: int) -> Finding:
    """Clients use the address that a broker advertises, not the bootstrap address."""
    name = f"broker {node_id}"
    try:
        connection = await router.broker(node_id)
    except ClientError as error:
        return Finding(name, FindingState.BROKEN, str(error), "check its advertised.listeners")
    return Finding(name, FindingState.OK, f"reached at its advertised {connection.address}")


async def _check_partitions(router: Router) -> Finding:
    try:
        topics = await Admin(router).list_topics()
    except ClientError as error:
        return Finding("partitions", FindingState.BROKEN, str(error))
    partitions = [partition for topic in topics for partition in topic.partitions]
    unavailable = sum(each.is_unavailable for each in partitions)
    if unavailable:
        return Finding(
            "partitions",
            FindingState.BROKEN,
            f"{counted(unavailable, 'partition')} of {len(partitions)} without a leader",
            "`ottla topic describe --unavailable` names them",
        )
    under_replicated = sum(each.is_under_replicated for each in partitions)
    if under_replicated:
        return Finding(
            "partitions",
            FindingState.LIMITED,
            f"{counted(under_replicated, 'partition')} of {len(partitions)} under-replicated",
            "`ottla topic describe --under-replicated` names them",
        )
    return Finding("partitions", FindingState.OK, f"all {len(partitions)} led and in sync")
