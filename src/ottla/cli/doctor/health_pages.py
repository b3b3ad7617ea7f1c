"""Checks `/health/ready` of the brokers whose metrics ports are known."""

import asyncio
import http.client
import json
from collections.abc import Sequence

from ottla.address import Address
from ottla.cli.cluster.cluster_file import read_cluster_file
from ottla.cli.cluster.ports import LOOPBACK
from ottla.cli.doctor.finding import Finding, FindingState

PAGE_BYTES_MAX = 1 << 20


def health_addresses(data: str) -> list[Address]:
    """Those of the cluster that `ottla up --brokers` runs in this directory; else none."""
    ports = read_cluster_file(data)
    return [] if ports is None else [Address(LOOPBACK, each.metrics) for each in ports.brokers]


async def check_health_pages(
    addresses: Sequence[Address], timeout_s: float, *, must_answer: bool
) -> list[Finding]:
    """One finding for each address."""
    looks = (
        asyncio.to_thread(_check, each, timeout_s, must_answer=must_answer) for each in addresses
    )
    return list(await asyncio.gather(*looks))


def _check(address: Address, timeout_s: float, *, must_answer: bool) -> Finding:
    name = f"health {address}"
    try:
        status, body = _get(address, timeout_s)
        page = json.loads(body)
        reasons, warnings = page["reasons"], page.get("warnings", [])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        return Finding(
            name,
            FindingState.BROKEN if must_answer else FindingState.LIMITED,
            f"no health page: {error}",
            "start its broker, or check ottla.metrics.host and ottla.metrics.port",
        )
    if status != http.client.OK:
        return Finding(
            name,
            FindingState.BROKEN,
            f"not ready: {'; '.join(reasons)}",
            "wait until it is ready before another broker is restarted; its log says more",
        )
    if warnings:
        advice = "see its log; docs/operations.md says what to do"
        return Finding(name, FindingState.LIMITED, "; ".join(warnings), advice)
    return Finding(name, FindingState.OK, "ready")


def _get(address: Address, timeout_s: float) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)
    try:
        connection.request("GET", "/health/ready")
        response = connection.getresponse()
        return response.status, response.read(PAGE_BYTES_MAX)
    finally:
        connection.close()
