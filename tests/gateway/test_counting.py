"""What ``/metrics`` counts of turns that outlive their gateway."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest

from tests.gateway.test_recovery import left_by_crash
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.store import ending, in_memory, new, rid
from vivace.engines.scripted import Reply, Say
from vivace.gateway.keeping.counting import counted
from vivace.gateway.metrics import Metrics
from vivace.store.base import Done, Ended, Fenced, Taken

STORY = Reply(then=(Say(" word", times=1_000_000),))
KEPT = configuration(store={"path": "turns.db"}, engine={"rate": 500})
NOTHING = {"takeovers": 0, "turns_parked": 0, "turns_lost": 0, "fenced_writes": 0}


def figures(exposition: str) -> dict[str, int]:
    """All of them, whatever their labels."""
    found = dict(NOTHING)
    for line in exposition.splitlines():
        name = line.split("{")[0].split(" ")[0].removeprefix("vivace_").removesuffix("_total")
        if name in found and not line.startswith("#"):
            found[name] += round(float(line.rsplit(" ", 1)[1]))
    return found


def test_every_write_that_tells_of_it_is_counted(tmp_path: Path) -> None:
    metrics = Metrics()

    async def story() -> None:
        store = counted(in_memory(tmp_path), metrics)
        await store.accept(new("a"))
        await store.accept(new("b"))
        assert isinstance(await store.take(rid("a"), 1, "g2"), Taken)
        assert isinstance(await store.take(rid("a"), 1, "g3"), Fenced)
        assert await store.park(rid("a"), 2, 60) == Done()
        assert await store.park(rid("a"), 2, None) == Done()
        assert await store.attempt(rid("a"), 1, 2, "", b"") == Fenced()
        assert await store.park(rid("a"), 1, 60) == Fenced()
        assert await store.end(ending("a", epoch=1)) == Fenced()
        lost = b'{"error":{"code":"lost_midway","message":"gone"}}'
        other = b'{"error":{"code":"engine_died","message":"gone"}}'
        for label, epoch, response in (("a", 2, lost), ("b", 1, other)):
            how = msgspec.structs.replace(
                ending(label, epoch=epoch), status="failed", response=response
            )
            assert isinstance(await store.end(how), Ended)
        await store.close()

    asyncio.run(story())
    assert figures(metrics.exposition().decode()) == {
        "takeovers": 1,
        "turns_parked": 1,
        "turns_lost": 1,
        "fenced_writes": 3,
    }
    for write in ("attempt", "park", "end"):
        assert f'vivace_fenced_writes_total{{write="{write}"}} 1.0' in metrics.exposition().decode()


@pytest.mark.parametrize("journal", ["is there", "is gone"])
def test_turns_that_a_killed_gateway_leaves_are_counted_by_the_next_one(
    tmp_path: Path, journal: str
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    with (
        RunningGateway([STORY], config=KEPT, base=before) as gateway,
        Socket(gateway.url) as socket,
    ):
        assert figures(metrics_of(gateway)) == NOTHING
        for lane in ("a", "b"):
            socket.create("a story", stream_id=lane)
        told = set[str]()
        while told != {"a", "b"}:
            told.add(socket.until("response.output_text.delta")["stream_id"])
        left_by_crash(before, after)
    if journal == "is gone":
        shutil.rmtree(after / "turns.db-said")
    with RunningGateway([STORY], config=KEPT, base=after) as gateway:
        count = "turns_parked" if journal == "is there" else "turns_lost"
        assert figures(metrics_of(gateway)) == NOTHING | {"takeovers": 2, count: 2}


def metrics_of(gateway: RunningGateway) -> str:
    with gateway.http as http:
        return http.get("/metrics").text
