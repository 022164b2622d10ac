"""How endpoints end that do not return."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from monarch._runtime.lanes import _handle
from monarch._runtime.spec import EndpointSpec
from monarch._runtime.work import Work
from monarch.wire.codec import Envelope


async def wait(actor: Any) -> None:
    await asyncio.get_running_loop().create_future()


def test_an_endpoint_that_python_clears_up_after_its_loop_has_not_failed() -> None:
    raised: list[Any] = []
    cell: Any = SimpleNamespace(
        actor=None,
        context_of=lambda view: None,
        arguments=lambda work, spec: ((), {}, None),
        raised=lambda *facts: raised.append(facts),
    )
    work = Work(Envelope(), (), None)  # type: ignore[arg-type]

    async def begin() -> Any:
        handling = _handle(cell, work, EndpointSpec(wait, True), concurrent=False)
        handling.send(None)
        return handling

    asyncio.run(begin()).close()
    assert raised == []
