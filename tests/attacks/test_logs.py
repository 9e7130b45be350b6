"""Whatever goes wrong and wherever, the log has no word of what anybody said."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.attacks.conftest import Serving
from tests.attacks.plugs import heard, plug
from tests.support.http import RESPONSES
from tests.support.process import Serve
from tests.support.waiting import eventually

SECRET = "the-words-of-a-person"
PLACES = {"engine": "generate", "plan": "plan", "store": "accept", "socket": "receive"}

FAULTS = '''
"""Python imports this before anything else: faults that quote what they were given."""

import asyncio
import logging
import threading

from vivace.engines.scripted import ScriptedEngine
from vivace.errors import StoreError
from vivace.gateway.planning import Planner
from vivace.gateway.client_connection import Connection
from vivace.store.sqlite import SqliteStore


class EngineFault(Exception): pass
class PlanFault(Exception): pass
class SocketFault(Exception): pass
class TaskFault(Exception): pass
class CallbackFault(Exception): pass
class ThreadFault(Exception): pass
class LibraryFault(Exception): pass


generate, plan, accept, receive = (
    ScriptedEngine.generate, Planner.plan, SqliteStore.accept, Connection.receive
)


async def faulty_generate(self, work):
    if "break the engine" in repr(work):
        raise EngineFault(repr(work))
    async for delta in generate(self, work):
        yield delta


def faulty_plan(self, ticket, owner, *given, **more):
    if "break the plan" in repr(ticket.request):
        raise PlanFault(repr(ticket.request))
    return plan(self, ticket, owner, *given, **more)


async def faulty_accept(self, turn):
    if "break the store" in repr(turn):
        raise StoreError(f"The store failed: {turn!r}")
    return await accept(self, turn)


def throw(error):
    raise error


async def lost(words):
    raise TaskFault(words)


async def faulty_receive(self, event):
    words = repr(event)
    if "break the socket" in words:
        asyncio.get_running_loop().call_soon(throw, CallbackFault(words))
        asyncio.create_task(lost(words))
        threading.Thread(target=throw, args=(ThreadFault(words),)).start()
        logging.getLogger("uvicorn.error").error("failed: %s", LibraryFault(words))
        logging.getLogger("uvicorn.error").error("failed after %d s", words)
        await asyncio.sleep(0)
        raise SocketFault(words)
    await receive(self, event)


ScriptedEngine.generate, Planner.plan = faulty_generate, faulty_plan
SqliteStore.accept, Connection.receive = faulty_accept, faulty_receive
'''


@pytest.fixture(params=[(), ("--verbose",)], ids=["plain", "verbose"])
def server(serve: Serving, tmp_path: Path, request: pytest.FixtureRequest) -> Serve:
    (tmp_path / "sitecustomize.py").write_text(FAULTS)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return serve(environment={"PYTHONPATH": path}, arguments=request.param)


FAULTY = {name: f"in faulty_{place}" for name, place in PLACES.items()}


def post(path: str, body: object) -> bytes:
    sent = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(sent)}"]
    return "\r\n".join([*lines, "", ""]).encode() + sent


def told_again(server: Serve, told: str, before: int) -> int:
    """Wait until the log has more of these words than before; return how many."""
    eventually(lambda: server.log.count(told) > before)
    return server.log.count(told)


def test_no_error_carries_a_prompt_into_the_log(server: Serve) -> None:
    for where, told in FAULTY.items():
        before = server.log.count(told)
        if where != "socket":
            body = {"input": f"break the {where}: {SECRET}", "instructions": SECRET}
            with server.raw(post(f"{RESPONSES}?key={SECRET}", body)):
                before = told_again(server, told, before)
        with server.socket() as socket:
            socket.create(f"break the {where}: {SECRET}")
            told_again(server, told, before)
    kinds = ("Engine", "Plan", "Socket", "Task", "Callback", "Thread", "Library")
    eventually(lambda: [kind for kind in kinds if f"{kind}Fault" not in server.log] == [])
    assert "vivace.errors.StoreError" in server.log
    assert "a line of the log is lost, of uvicorn.error at sitecustomize.py:" in server.log
    assert SECRET not in server.log


def test_requests_without_a_key_do_not_fill_the_log(serve: Serving) -> None:
    server = serve(owners=["ada"])
    before, refused = len(server.log), 0
    strange = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = strange.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    for _ in range(40):
        with plug(server, strange * 63 + last) as one:
            refused += heard(one).count(b"HTTP/1.1 401 ")
    assert refused == 40 * 64
    assert server.log[before:].count("code=invalid_api_key") < refused // 2
