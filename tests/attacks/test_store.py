"""A gateway whose store is out of order says so, and goes on as far as it can."""

from __future__ import annotations

import contextlib
import resource
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.attacks.conftest import Serving
from tests.support.http import RESPONSES
from tests.support.process import Serve
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    with Serve(tmp_path_factory.mktemp("store")) as running:
        yield running


LARGE = "x " + "y" * 40_000


def create(http: httpx.Client, **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = http.post(RESPONSES, json=body).raise_for_status().json()
    return answer


def allow(server: Serve, size: int) -> None:
    """As on a disk with as much room, no file of the gateway grows beyond this."""
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_full_disk_is_told_while_it_lasts_and_costs_no_answer(server: Serve) -> None:
    with server.http() as http:
        kept = create(http, input="hi")
        allow(server, 20_000)  # less than one of these turns, however the store tidies up
        answers = [create(http, input=LARGE) for _ in range(4)]
        assert [(each["status"], each["store"]) for each in answers] == [("completed", False)] * 4
        readiness = http.get("/readyz")
        assert readiness.status_code == 503
        assert "disk" in readiness.text
        assert server.metric("vivace_store_up") == 0
        assert http.get("/healthz").status_code == 200
        assert http.get(f"{RESPONSES}/{kept['id']}").status_code == 200
        allow(server, resource.RLIM_INFINITY)
        eventually(lambda: http.get("/readyz").status_code == 200)  # though no turn came meanwhile
        assert server.metric("vivace_store_up") == 1
        after = create(http, input=LARGE)
        assert after["store"] is True
        assert http.get(f"{RESPONSES}/{after['id']}").json()["id"] == after["id"]


def test_a_damaged_store_is_never_called_ready(serve: Serving, tmp_path: Path) -> None:
    with serve() as server, server.http() as http:
        turns = [create(http, input=LARGE[:9000])["id"] for _ in range(20)]
        server.process.terminate()
        server.process.wait()
    path = tmp_path / "vivace.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * (size - 8192))
    server = Serve(tmp_path)
    try:
        with server.http() as http:
            eventually(lambda: _answers(http))
            assert http.get(f"{RESPONSES}/{turns[0]}").status_code == 503
            readiness = http.get("/readyz")
            assert readiness.status_code == 503
            assert "damaged" in readiness.text
    finally:
        server.__exit__(None, None, None)


def _answers(http: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return http.get("/healthz").status_code == 200
    return False


def test_a_second_gateway_on_the_same_file_is_refused_and_the_first_undisturbed(
    server: Serve, tmp_path: Path
) -> None:
    store = {"path": str(server.folder / "vivace.db")}
    with pytest.raises(AssertionError, match="in use by another gateway") as refused:
        Serve(tmp_path, tables={"store": store}).__enter__()
    assert f"process {server.process.pid}," in str(refused.value)
    with server.http() as http:
        assert create(http, input="hi")["store"] is True


def test_a_lock_of_another_program_holds_up_no_reader(server: Serve) -> None:
    with server.http() as http:
        kept = create(http, input="hi")["id"]
        with contextlib.closing(sqlite3.connect(server.folder / "vivace.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            assert http.get(f"{RESPONSES}/{kept}").status_code == 200


def test_the_files_with_prompts_are_their_owners_alone(server: Serve) -> None:
    with server.http() as http:
        create(http, input="hi")
    [said] = server.folder.glob("vivace.db-said")
    assert stat.S_IMODE(said.stat().st_mode) == 0o700
    found = [*server.folder.glob("vivace.db*"), *said.iterdir()]
    found.remove(said)
    assert len(found) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
