"""What a turn needs before it runs, where no scripted engine can show it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.engines.endpoint import Endpoint, delta, stream
from tests.support.server import configuration
from vivace.gateway.app import Gateway
from vivace.gateway.http import Collector
from vivace.protocol.codec import decode_create

LIMIT = 2000


async def talk(gateway: Gateway, turns: int) -> None:
    """Turns that follow each other, each of some 300 tokens."""
    async with gateway.running():
        previous = None
        for _ in range(turns):
            collector = Collector()
            connection = gateway.runner.connect(collector, "local", "r")
            body = {"input": "word " * 180, "truncation": "auto", "previous_response_id": previous}
            await connection.receive(decode_create(json.dumps(body).encode()))
            await connection.finished()
            previous = collector.result().id


def test_an_endpoint_that_does_not_count_is_handed_no_more_than_fits(tmp_path: Path) -> None:
    with Endpoint() as endpoint:
        endpoint.answers(stream(delta(content="Yes."), delta(reason="stop")))
        engine = {"kind": "openai", "model": "m", "url": endpoint.url, "context": LIMIT}
        config = configuration(engines=[{"name": "e", **engine}])
        asyncio.run(talk(Gateway(config, tmp_path), 12))
        handed = [len(json.dumps(body["messages"])) // 3 for body in endpoint.asked]
    assert len(handed) == 12
    assert max(handed) < LIMIT
    assert max(handed) > LIMIT // 2
