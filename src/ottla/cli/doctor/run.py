"""Runs all checks of `ottla doctor` and prints their results."""

import asyncio

from ottla.cli.doctor import machine
from ottla.cli.doctor.broker import check_cluster
from ottla.cli.doctor.finding import Finding, FindingState
from ottla.cli.shared.connect import router_to
from ottla.cli.shared.failure import ExitCode
from ottla.cli.shared.options import BOOTSTRAP_DEFAULT
from ottla.cli.shared.output import RowWriter
from ottla.seams.clock import RealClock


def run_checks(data: str, bootstrap: str | None, timeout_s: float, writer: RowWriter) -> ExitCode:
    """Returns CHECK_FAILED if a check finds something broken."""
    findings = [
        machine.check_python(),
        machine.check_native(),
        machine.check_java(),
        machine.check_disk(data),
        machine.check_descriptors(),
        machine.check_clock(RealClock().wall_ms()),
        *asyncio.run(_cluster(bootstrap, timeout_s)),
    ]
    for finding in findings:
        writer.write({"kind": "check", **finding._asdict()})
    writer.close()
    is_broken = any(finding.state is FindingState.BROKEN for finding in findings)
    return ExitCode.CHECK_FAILED if is_broken else ExitCode.OK


async def _cluster(bootstrap: str | None, timeout_s: float) -> list[Finding]:
    async with router_to(bootstrap or BOOTSTRAP_DEFAULT, timeout_s) as router:
        return await check_cluster(router, must_answer=bootstrap is not None)
