"""Runs all checks of `ottla doctor` and prints their results."""

import asyncio

from ottla.cli.doctor import machine
from ottla.cli.doctor.broker import check_cluster
from ottla.cli.doctor.finding import Finding, FindingState
from ottla.cli.doctor.health_pages import check_health_pages, health_addresses
from ottla.cli.shared.connect import router_to
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.options import BOOTSTRAP_DEFAULT
from ottla.cli.shared.output import RowWriter
from ottla.client.connection.bootstrap import parse_addresses
from ottla.client.errors import BadAddress
from ottla.seams.clock import RealClock


def run_checks(
    data: str, bootstrap: str | None, health: str | None, timeout_s: float, writer: RowWriter
) -> ExitCode:
    """Returns CHECK_FAILED if a check finds something broken."""
    findings = [
        machine.check_python(),
        machine.check_native(),
        machine.check_java(),
        machine.check_disk(data),
        machine.check_descriptors(),
        machine.check_clock(RealClock().wall_ms()),
        *asyncio.run(_cluster(bootstrap, timeout_s)),
        *asyncio.run(_health(data, health, timeout_s)),
    ]
    for finding in findings:
        writer.write({"kind": "check", **finding._asdict()})
    writer.close()
    is_broken = any(finding.state is FindingState.BROKEN for finding in findings)
    return ExitCode.CHECK_FAILED if is_broken else ExitCode.OK


async def _cluster(bootstrap: str | None, timeout_s: float) -> list[Finding]:
    async with router_to(bootstrap or BOOTSTRAP_DEFAULT, timeout_s) as router:
        return await check_cluster(router, must_answer=bootstrap is not None)


async def _health(data: str, health: str | None, timeout_s: float) -> list[Finding]:
    if health is None:
        return await check_health_pages(health_addresses(data), timeout_s, must_answer=False)
    try:
        addresses = parse_addresses(health)
    except BadAddress as error:
        raise Failure(f"--health: {error}", exit_code=ExitCode.USAGE) from None
    return await check_health_pages(addresses, timeout_s, must_answer=True)
