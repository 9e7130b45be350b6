"""What happens to answers and connections when the process ends."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.process import Serve
from tests.support.socket import Socket
from tests.support.waiting import PATIENCE_S, eventually

LONG = f"""
[[replies]]
when = "long"
then = [{{ do = "think", text = "{"Hm. " * 100_000}" }}, {{ do = "say", text = "Well." }}]
[[replies]]
when = "endless"
then = [{{ do = "say", text = " word", times = 1000000 }}]
"""


def test_completed_responses_survive_kill_9(tmp_path: Path) -> None:
    kept: list[str] = []
    with Serve(tmp_path) as server:
        dead = threading.Event()

        def keep_asking(_: int) -> None:
            with httpx.Client(base_url=server.url) as http:
                while not dead.is_set():
                    try:
                        answer = http.post("/responses", json={"input": "hi"}).json()
                    except (httpx.TransportError, ValueError):
                        return
                    assert answer["status"] == "completed"
                    kept.append(answer["id"])

        with ThreadPoolExecutor(4) as pool:
            askers = [pool.submit(keep_asking, number) for number in range(4)]
            eventually(lambda: len(kept) >= 100)
            server.process.send_signal(signal.SIGKILL)
            dead.set()
            for asker in askers:
                asker.result()
    with Serve(tmp_path) as server, httpx.Client(base_url=server.url) as http:
        missing = [one for one in kept if http.get(f"/responses/{one}").status_code != 200]
        assert missing == []
        continued = http.post("/responses", json={"input": "on", "previous_response_id": kept[-1]})
        assert continued.json()["status"] == "completed"


def test_sigterm_lets_running_turns_finish_and_closes_sockets_with_1001(tmp_path: Path) -> None:
    with Serve(tmp_path, LONG, rate=400, drain=600) as server, Socket(server.url) as socket:
        socket.create("a long answer")
        response_id = socket.until("response.created")["response"]["id"]
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: httpx.get(f"{server.url[:-3]}/readyz").status_code == 503)
        with Socket(server.url) as late:
            with pytest.raises(ConnectionClosed) as closed:
                late.turn("too late")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013
        refused = httpx.post(f"{server.url}/responses", json={"input": "too late"})
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"

        answer_now = {"previous_response_id": response_id, "when": "end_thinking"}
        socket.send(type="response.steer", **answer_now)
        assert socket.until_end()[-1]["type"] == "response.completed"
        with pytest.raises(ConnectionClosed) as closed:
            socket.read()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        assert server.process.wait(PATIENCE_S) == 0


def test_sigterm_stops_what_does_not_finish_in_time(tmp_path: Path) -> None:
    with Serve(tmp_path, LONG, rate=400, drain=0.3) as server, Socket(server.url) as socket:
        socket.create("an endless answer")
        assert socket.read()["type"] == "response.created"
        server.process.send_signal(signal.SIGTERM)
        last = socket.until_end()[-1]
        assert last["type"] == "response.incomplete"
        assert last["response"]["status"] == "cancelled"
        assert server.process.wait(PATIENCE_S) == 0


def test_logs_name_the_request_and_never_what_it_says(tmp_path: Path) -> None:
    with Serve(tmp_path) as server:
        httpx.post(
            f"{server.url}/responses",
            json={"input": "a-secret-prompt", "instructions": "a-secret-instruction"},
            headers={"x-request-id": "trace-me", "authorization": "Bearer a-secret-key"},
        )
        httpx.post(f"{server.url}/responses", json={"input": 5, "model": "a-secret-field"})
    assert "request_id=trace-me" in server.log
    assert "a-secret" not in server.log
