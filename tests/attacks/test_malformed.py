"""What cannot be read, from the wire or from the disk, is answered with words and harms nobody."""

from __future__ import annotations

import json
import sqlite3

from tests.attacks.conftest import Serving
from tests.support.http import RESPONSES

NESTED = (
    '{"text":{"format":{"type":"json_schema","name":"n","schema":%s}},',
    '{"tools":[{"type":"function","name":"f","parameters":%s}],',
    '{"tools":[{"type":"web_search","n":%s}],',
)


def test_nesting_that_nobody_could_write_again_is_refused(serve: Serving) -> None:
    server = serve()
    with server.http() as http, server.socket() as socket:
        for form in NESTED:
            for depth in (101, 400, *range(960, 975)):
                body = form % ('{"a":' * depth + "1" + "}" * depth) + '"input":"x"'
                for more in (',"background":true}', ',"stream":true}'):
                    assert http.post(RESPONSES, content=body + more).status_code == 400, depth
                socket.raw.send('{"type":"response.create",' + body[1:] + "}")
                assert socket.read()["status"] == 400
        assert socket.turn("x")["type"] == "response.completed"
    assert server.errors == []


def test_a_stored_turn_that_cannot_be_read_wedges_no_lane(serve: Serving) -> None:
    server = serve()
    with server.http() as http:
        made = http.post(RESPONSES, json={"input": "x"}).json()["id"]
    server.process.terminate()
    server.process.wait()
    with sqlite3.connect(server.folder / "vivace.db") as store:
        damaged = json.dumps([{"type": "of_another_version"}])
        store.execute("UPDATE turns SET input = ?", (damaged.encode(),))
    store.close()
    server = serve()
    with server.http() as http, server.socket() as socket:
        socket.create("on", previous_response_id=made)
        assert socket.read()["error"]["code"] == "response_unreadable"
        assert socket.turn("another question")["type"] == "response.completed"
        answer = http.post(RESPONSES, json={"input": "on", "previous_response_id": made})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "response_unreadable")
        assert http.get(f"{RESPONSES}/{made}").json()["id"] == made
        assert http.delete(f"{RESPONSES}/{made}").status_code == 200
