"""A client that changes a setting of the main topic and takes producer ids, through any broker."""

import asyncio
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.config_resource import ResourceType
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest
from ottla.protocol.messages.describe_configs import Resource as DescribedResource
from ottla.protocol.messages.incremental_alter_configs import (
    Config,
    IncrementalAlterConfigsRequest,
    Resource,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.sim.cluster.admin import PASSING
from tests.sim.cluster.routing import Routing, TryAgain
from tests.sim.cluster.world import MAIN_TOPIC, World

ALTER_VERSION = 1
DESCRIBE_VERSION = 4
INIT_PRODUCER_ID_VERSION = 4
SET = 0
# Nothing in this simulation depends on it: the main topic is not compacted.
SETTING = "delete.retention.ms"
NO_IDS_YET = (
    *PASSING,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class ConfigChanger:
    """The setting has the last acknowledged value in the end, or one whose outcome is unknown.

    Nobody else changes it. A request that was not answered may be carried out late.
    """

    name = "config-changer"

    def __init__(self, world: World) -> None:
        self._world = world
        self._entropy = world.entropy.fork(self.name)
        self._routing = Routing(world, self.name, self._entropy.fork("routing"))
        self._sent = 0
        self._unanswered: list[str] = []
        self._acknowledged_value: str | None = None
        self.acknowledged = 0
        self.producer_ids = 0

    def __repr__(self) -> str:
        return f"{self.name}, {self.acknowledged} of {self._sent} changes acknowledged"

    async def run(self) -> None:
        while not self._world.is_calm:
            try:
                await self._take_producer_id()
                await self._change()
            except (OSError, TimeoutError, TryAgain):
                self._routing.close()
            await asyncio.sleep(self._entropy.between(1, 1_000) / 1e3)
        self._routing.close()

    async def check(self) -> None:
        """In peace: every broker has the value."""
        if self._acknowledged_value is None:
            return
        found = {host: await self._described(host) for host in self._world.cluster.hosts}
        assert len(set(found.values())) == 1, f"{SETTING} differs: {found}"
        value = found[self._world.cluster.hosts[0]]
        assert value in (self._acknowledged_value, *self._unanswered), (
            f"{SETTING} is {value}, and {self._acknowledged_value} was acknowledged"
        )
        self._routing.close()

    async def _change(self) -> None:
        self._sent += 1
        value = str(self._sent)
        config = Config(name=SETTING, config_operation=SET, value=value)
        resource = Resource(
            resource_type=ResourceType.TOPIC, resource_name=MAIN_TOPIC, configs=(config,)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        line = await self._routing.controller()
        self._unanswered.append(value)
        (result,) = (await line.line.ask(request, ALTER_VERSION)).responses
        _accept(result.error_code, PASSING)
        self._unanswered.remove(value)
        self._acknowledged_value = value
        self.acknowledged += 1

    async def _take_producer_id(self) -> None:
        line = await self._routing.any_broker()
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = await line.line.ask(request, INIT_PRODUCER_ID_VERSION)
        _accept(response.error_code, NO_IDS_YET)
        self._world.history.take_producer_id(response.producer_id)
        self.producer_ids += 1

    async def _described(self, host: str) -> str | None:
        resource = DescribedResource(
            resource_type=ResourceType.TOPIC,
            resource_name=MAIN_TOPIC,
            configuration_keys=(SETTING,),
        )
        line = await self._routing.to_host(host)
        request = DescribeConfigsRequest(resources=(resource,))
        (result,) = (await line.line.ask(request, DESCRIBE_VERSION)).results
        assert result.error_code == ErrorCode.NONE, result
        (config,) = result.configs
        value: str | None = config.value
        return value


def _accept(code: Any, passing: tuple[ErrorCode, ...]) -> None:
    if code in passing:
        raise TryAgain
    assert code == ErrorCode.NONE, ErrorCode(code).name
