"""A background response is answered for when its client leaves and when its process dies."""

from __future__ import annotations

from tests.attacks.conftest import Serving
from tests.support.http import RESPONSES, said, sse


def test_what_a_killed_process_was_doing_goes_on_in_the_next_one(serve: Serving) -> None:
    server = serve()
    with server.http() as http, server.socket() as socket:
        asked = http.post(RESPONSES, json={"input": "stall", "background": True}).json()["id"]
        socket.create("stall", background=True)
        told = socket.until("response.created")["response"]["id"]
        done = http.post(RESPONSES, json={"input": "hi", "background": True}).json()["id"]
        assert http.get(f"{RESPONSES}/{done}?stream=true").text.endswith("[DONE]\n\n")
        server.process.kill()
        server.process.wait()
        socket.vanish()
    with serve().http() as http:
        assert http.get(f"{RESPONSES}/{done}").json()["status"] == "completed"
        for lost in (asked, told):
            assert http.get(f"{RESPONSES}/{lost}").json()["status"] == "in_progress"
            body = {"input": "go on", "previous_response_id": lost}
            assert http.post(RESPONSES, json=body).status_code == 400
            assert http.delete(f"{RESPONSES}/{lost}").status_code == 200
            assert http.get(f"{RESPONSES}/{lost}").status_code == 404


def test_a_socket_that_is_cut_takes_no_background_response_with_it(serve: Serving) -> None:
    server = serve()
    with server.socket() as socket:
        socket.create("long", background=True)
        response_id = socket.until("response.created")["response"]["id"]
        last = socket.until("response.output_text.delta")["sequence_number"]
        socket.vanish()
    with server.http() as http:
        after = {"stream": "true", "starting_after": str(last)}
        answer = http.get(f"{RESPONSES}/{response_id}", params=after)
        numbers = [event["sequence_number"] for event in sse(answer.text.splitlines())]
        assert numbers == list(range(last + 1, last + 1 + len(numbers)))
        assert said(http.get(f"{RESPONSES}/{response_id}").json()) == " word" * 400
