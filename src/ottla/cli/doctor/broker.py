"""What a cluster answers: whether it is there, what it speaks, whether all of it can be reached."""

from ottla.cli.doctor.finding import Finding, State
from ottla.client.connection.connection import Connection
from ottla.client.errors import ClientError
from ottla.client.routing.router import Router
from ottla.protocol.messages import APIS

# What the commands of this program ask for: without these some of them do not work.
ASKED_APIS = tuple(APIS[key] for key in (0, 1, 2, 3, 19, 20, 21, 32, 35, 37, 60))


async def check_cluster(router: Router, *, must_answer: bool) -> list[Finding]:
    """One finding if nobody answers, else one for each thing that was looked at."""
    try:
        connection = await router.any_broker()
        await router.refresh(())
    except ClientError as error:
        state = State.BROKEN if must_answer else State.LIMITED
        advice = "`ottla up` starts one; --bootstrap HOST:PORT names another"
        return [Finding("broker", state, f"none answers: {error}", advice)]
    brokers = router.topology.brokers
    return [
        Finding("broker", State.OK, f"{connection.address} answers, of {len(brokers)} in all"),
        _check_versions(connection),
        *[await _check_address(router, node_id) for node_id in sorted(brokers)],
    ]


def _check_versions(connection: Connection) -> Finding:
    lacking = [api.name for api in ASKED_APIS if not connection.speaks(api)]
    if lacking:
        return Finding("versions", State.LIMITED, f"the broker lacks {', '.join(lacking)}")
    return Finding("versions", State.OK, f"all {len(ASKED_APIS)} APIs that are used here")


async def _check_address(router: Router, node_id: int) -> Finding:
    """Clients are sent to the address that a broker gives of itself, whatever they were told."""
    name = f"broker {node_id}"
    try:
        connection = await router.broker(node_id)
    except ClientError as error:
        return Finding(name, State.BROKEN, str(error), "look at its advertised.listeners")
    return Finding(name, State.OK, f"reached at {connection.address}, as it says")
