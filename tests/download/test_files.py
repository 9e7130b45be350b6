"""Downloads against real servers on loopback: resume, refusal, cache, space, the hub's headers."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import io
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.disk import small_disk_at
from tests.support.hub import Hub as FakeHub
from vivace.download import files, transfer, web
from vivace.download.files import bring, bring_all, cache_root
from vivace.download.hub import hub_url
from vivace.download.wanted import Wanted
from vivace.errors import DownloadError

CONTENT = bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CUT_AFTER = 300_000


class Asked(NamedTuple):
    method: str
    path: str
    start: int
    token: str | None


class Hub(ThreadingHTTPServer):
    """Serves CONTENT; can cut its answers, ignore ranges, redirect, describe, or fail."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[Asked] = []
        self.content = CONTENT
        self.cuts = 0
        self.ranges = True
        self.lengths = True
        self.status: int | None = None
        self.no_head = False
        self.redirects: dict[str, str] = {}
        self.linked: dict[str, str] = {}
        self.shift = 0
        self.gate: threading.Event | None = None

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # the client may leave
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def starts(self) -> list[int]:
        return [asked.start for asked in self.asked if asked.method == "GET"]


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer(b"")

    def do_GET(self) -> None:
        hub = self.server
        if hub.gate:
            hub.gate.wait()
        self.answer(hub.content)

    def answer(self, content: bytes) -> None:
        hub = self.server
        asked = self.headers.get("Range") if hub.ranges else None
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        token = self.headers.get("Authorization")
        hub.asked.append(Asked(self.command, self.path, start, token))
        status = 405 if hub.no_head and self.command == "HEAD" else hub.status
        if status:
            self.send_error(status)
            return
        if target := hub.redirects.get(self.path):
            self.redirect(target)
            return
        total = len(hub.content)
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start + hub.shift}-{total - 1}/{total}")
        if hub.lengths:
            self.send_header("Content-Length", str(total - start))
        self.end_headers()
        end = total
        if hub.cuts:
            hub.cuts -= 1
            end = start + CUT_AFTER
        self.wfile.write(content[start:end])

    def redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        for name, value in self.server.linked.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setenv("HF_TOKEN_PATH", "/nowhere")
        monkeypatch.setattr("vivace.download.transfer.time.sleep", lambda _: None)
        yield server


@pytest.fixture
def elsewhere() -> Iterator[Hub]:
    with serving() as server:
        yield server


@pytest.fixture
def wanted(hub: Hub, tmp_path: Path) -> Wanted:
    return Wanted(
        name="tiny",
        url=hub_url("someone/tiny", "tiny.gguf"),
        path=tmp_path / "cache" / "tiny.gguf",
        size=len(CONTENT),
        sha256=SHA256,
    )


@pytest.fixture
def part(wanted: Wanted) -> Path:
    wanted.path.parent.mkdir()
    return wanted.path.with_name("tiny.gguf.part")


def unknown(wanted: Wanted) -> Wanted:
    return dataclasses.replace(wanted, size=None, sha256=None)


def refused(wanted: Wanted) -> str:
    with pytest.raises(DownloadError) as caught:
        bring(wanted)
    return str(caught.value)


# -- fetching and resuming -----------------------------------------------------


def test_a_second_call_asks_nobody_and_hashes_nothing(
    hub: Hub, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bring(wanted)
    assert wanted.path.read_bytes() == CONTENT
    monkeypatch.setattr(files, "_hashed", None)
    assert not bring(wanted)
    assert [asked.method for asked in hub.asked] == ["GET"]


def test_a_cut_download_goes_on_where_it_stopped(hub: Hub, wanted: Wanted) -> None:
    hub.cuts = 2
    seen: list[tuple[int, int]] = []
    assert bring(wanted, lambda done, total: seen.append((done, total)))
    assert wanted.path.read_bytes() == CONTENT
    assert hub.starts == [0, CUT_AFTER, 2 * CUT_AFTER]
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_a_later_run_resumes_the_part_file(hub: Hub, wanted: Wanted, part: Path) -> None:
    part.write_bytes(CONTENT[:1000])
    assert bring(wanted)
    assert wanted.path.read_bytes() == CONTENT
    assert hub.starts == [1000]
    assert not part.exists()


def test_a_part_that_is_whole_needs_no_network(hub: Hub, wanted: Wanted, part: Path) -> None:
    part.write_bytes(CONTENT)
    assert bring(wanted)
    assert hub.asked == []


def test_what_stops_the_caller_keeps_the_part(hub: Hub, wanted: Wanted, part: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bring(wanted, stop)
    assert part.read_bytes() == CONTENT[: transfer.CHUNK]
    assert bring(wanted)
    assert hub.starts == [0, transfer.CHUNK]


def test_a_server_without_ranges_sends_it_all_again(hub: Hub, wanted: Wanted) -> None:
    hub.cuts, hub.ranges = 1, False
    assert bring(wanted)
    assert wanted.path.read_bytes() == CONTENT
    assert hub.starts == [0, 0]


def test_a_server_that_never_gets_further_is_left(hub: Hub, wanted: Wanted) -> None:
    hub.cuts, hub.ranges = 100, False
    assert "ended early" in refused(wanted)
    assert hub.starts == [0] * (1 + transfer.BARREN_TRIES)


def test_an_answer_from_the_wrong_place_is_not_appended(
    hub: Hub, wanted: Wanted, part: Path
) -> None:
    part.write_bytes(CONTENT[:1000])
    hub.shift = 1
    assert bring(wanted)
    assert wanted.path.read_bytes() == CONTENT
    assert hub.starts == [1000, 0]


def test_failing_servers_are_left_and_what_came_is_kept(
    hub: Hub, wanted: Wanted, part: Path
) -> None:
    part.write_bytes(CONTENT[:1000])
    hub.status = 503
    message = refused(wanted)
    assert "answered 503" in message
    assert f"0.0 MB are kept in {part}" in message
    assert hub.starts == [1000] * transfer.BARREN_TRIES
    assert part.read_bytes() == CONTENT[:1000]


def test_a_missing_file_is_not_asked_for_twice(hub: Hub, wanted: Wanted) -> None:
    hub.status = 404
    assert f"answered 404 Not Found for {wanted.url}" in refused(wanted)
    assert hub.starts == [0]


def test_a_closed_repository_leads_to_the_token(
    hub: Hub, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.status = 401
    for each in (wanted, unknown(wanted)):
        assert "set HF_TOKEN" in refused(each)
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    assert "your token may not read it" in refused(wanted)


def test_a_repository_with_terms_leads_to_them(
    hub: Hub, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeHub() as gated:
        monkeypatch.setenv("HF_ENDPOINT", gated.url)
        tiny = wanted.path.parent / "held"
        tiny.parent.mkdir()
        tiny.write_bytes(CONTENT)
        gated.hold("someone/tiny", tiny, sha256=SHA256, name="tiny.gguf")
        gated.gated["someone/tiny"] = "hf_mine"
        for each in (wanted, unknown(wanted)):
            each = dataclasses.replace(each, url=hub_url("someone/tiny", "tiny.gguf"))
            message = refused(each)
            assert f"accept its terms: do so at {gated.url}/someone/tiny, set HF_TOKEN" in message
        login = wanted.path.parent / "token"  # as hf auth login leaves it
        login.write_text("hf_mine")
        monkeypatch.setenv("HF_TOKEN_PATH", str(login))
        assert bring(each)


def test_a_part_longer_than_the_servers_file_is_dropped(
    hub: Hub, wanted: Wanted, part: Path
) -> None:
    part.write_bytes(CONTENT[:1000])
    hub.status = 416
    refused(wanted)
    assert hub.starts == [1000, 0, 0]
    part.write_bytes(CONTENT + b"more")
    hub.status = None
    assert bring(wanted)
    assert wanted.path.read_bytes() == CONTENT


def test_without_a_network_the_message_says_what_to_do(hub: Hub, wanted: Wanted) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        away = dataclasses.replace(wanted, url=f"http://127.0.0.1:{port}/tiny.gguf")
        for each in (away, unknown(away)):
            message = refused(each)
            assert f"127.0.0.1:{port} cannot be reached (Connection refused)" in message
            assert "Check the connection" in message
            assert "--model PATH" in message


def test_only_the_web_is_fetched_from(tmp_path: Path, wanted: Wanted) -> None:
    assert "not an http(s) address" in refused(dataclasses.replace(wanted, url="file:///etc/hosts"))


# -- the right file ------------------------------------------------------------


def test_a_wrong_hash_is_refused(hub: Hub, wanted: Wanted, part: Path) -> None:
    message = refused(dataclasses.replace(wanted, sha256="0" * 64))
    assert f"expected {'0' * 64}" in message
    assert f"received {SHA256}" in message
    assert "Run again" in message
    assert not wanted.path.exists()
    assert not part.exists()


def test_a_file_of_another_size_is_refused_before_it_is_fetched(
    hub: Hub, wanted: Wanted, part: Path
) -> None:
    hub.content = b"Please log in to this network."
    assert "has 30 bytes, not 1048576 bytes" in refused(wanted)
    assert not part.read_bytes()


def test_an_endless_answer_is_ended(hub: Hub, wanted: Wanted, part: Path) -> None:
    hub.content, hub.lengths = CONTENT * 4, False
    assert "refused and removed" in refused(wanted)
    assert not part.exists()


def test_a_spoilt_cached_file_is_fetched_again(hub: Hub, wanted: Wanted) -> None:
    assert bring(wanted)
    wanted.path.write_bytes(CONTENT[:-1] + b"?")
    told: list[str] = []
    assert bring(wanted, tell=told.append)
    assert wanted.path.read_bytes() == CONTENT
    assert hub.starts == [0, 0]
    assert "removed, fetching it again" in told[0]


@pytest.mark.parametrize("stamp", ["", "nonsense", "0 0 0\n"])
def test_a_touched_cached_file_is_hashed_and_taken(
    hub: Hub, wanted: Wanted, stamp: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bring(wanted)
    os.utime(wanted.path, (1, 1))
    wanted.path.with_name("tiny.gguf.ok").write_text(stamp)
    assert not bring(wanted)
    monkeypatch.setattr(files, "_hashed", None)
    assert not bring(wanted)
    assert hub.starts == [0]


def test_a_file_put_there_by_hand_is_taken(hub: Hub, wanted: Wanted, part: Path) -> None:
    wanted.path.write_bytes(CONTENT)
    assert not bring(wanted)
    assert hub.asked == []


def test_a_cache_that_cannot_be_written_can_be_used(
    hub: Hub, wanted: Wanted, part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(path: Path, *args: object, **kwargs: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    wanted.path.write_bytes(CONTENT)
    monkeypatch.setattr(Path, "write_text", forbid)
    monkeypatch.setattr(Path, "mkdir", forbid)
    assert not bring(wanted)
    wanted.path.unlink()
    message = refused(wanted)
    assert "Permission denied" in message
    assert "VIVACE_CACHE" in message


def test_the_substitute_comes_first(hub: Hub, wanted: Wanted) -> None:
    def give(wanted: Wanted, part: Path) -> bool:
        return bool(part.write_bytes(CONTENT))

    assert bring(wanted, substitute=give)
    assert wanted.path.read_bytes() == CONTENT
    assert hub.asked == []


def test_a_substitute_that_lies_is_refused(hub: Hub, wanted: Wanted, part: Path) -> None:
    with pytest.raises(DownloadError, match="refused and removed"):
        bring(wanted, substitute=lambda _, part: bool(part.write_bytes(b"wrong")))
    assert not part.exists()


# -- files that belong together ------------------------------------------------


def pieces(wanted: Wanted, *names: str) -> list[Wanted]:
    return [
        dataclasses.replace(
            unknown(wanted), url=hub_url("someone/tiny", name), path=wanted.path.with_name(name)
        )
        for name in names
    ]


def test_all_pieces_come_and_are_counted_as_one(hub: Hub, wanted: Wanted) -> None:
    both = pieces(wanted, "a.gguf", "b.gguf")
    seen: list[tuple[int, int]] = []
    assert bring_all(both, lambda done, total: seen.append((done, total)))
    assert [each.path.read_bytes() for each in both] == [CONTENT, CONTENT]
    assert seen == sorted(seen)
    assert seen[-1] == (2 * len(CONTENT), 2 * len(CONTENT))
    asked = len(hub.asked)
    assert not bring_all(both)
    assert len(hub.asked) == asked


def test_a_piece_that_is_there_already_is_checked_and_kept(hub: Hub, wanted: Wanted) -> None:
    both = pieces(wanted, "a.gguf", "b.gguf")
    assert bring(both[0])
    hub.asked.clear()
    assert bring_all(both)
    assert {asked.path.rpartition("/")[2] for asked in hub.asked} == {"b.gguf"}
    both[0].path.write_bytes(b"spoilt")
    assert bring_all(both)
    assert both[0].path.read_bytes() == CONTENT


def test_there_must_be_room_for_all_pieces_before_the_first_comes(
    hub: Hub, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage("/")._replace(free=1_500_000)
    monkeypatch.setattr("vivace.download.wanted.shutil.disk_usage", lambda _: free)
    with pytest.raises(DownloadError, match=r"2\.1 MB are needed, 1\.5 MB are free"):
        bring_all(pieces(wanted, "a.gguf", "b.gguf"))
    assert hub.starts == []


# -- space ---------------------------------------------------------------------


def test_too_little_space_is_said_before_anything_is_fetched(
    hub: Hub, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage("/")._replace(free=500_000)
    monkeypatch.setattr("vivace.download.wanted.shutil.disk_usage", lambda _: free)
    message = refused(wanted)
    assert f"not enough space in {wanted.path.parent}" in message
    assert "1.0 MB are needed, 0.5 MB are free" in message
    assert "VIVACE_CACHE" in message
    assert "smaller model" in message
    assert hub.asked == []
    hub.no_head = True  # the size is known only once it would come
    assert "1.0 MB are needed, 0.5 MB are free" in refused(unknown(wanted))


@pytest.mark.parametrize("hashed", [True, False])
def test_a_disk_that_fills_up_in_the_middle(
    hub: Hub, wanted: Wanted, part: Path, hashed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.FileIO):
        def write(self, data: Any) -> int:
            if self.tell() + len(data) > 600_000:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    real = Path.open

    def opened(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if path == part and mode in ("ab", "wb"):
            return Full(path, mode)
        return real(path, mode, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        message = refused(wanted if hashed else unknown(wanted))
    assert "not enough space" in message
    assert "VIVACE_CACHE" in message
    assert "smaller model" in message
    if hashed:
        assert "0.5 MB more are needed" in message
        assert f"0.5 MB are kept in {part}" in message
    assert part.exists() == hashed  # without a hash it could not be resumed
    assert bring(wanted)
    assert hub.starts == [0, 2 * transfer.CHUNK if hashed else 0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "small", "512k") as folder:
        yield folder


def test_a_small_disk(
    hub: Hub, wanted: Wanted, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = dataclasses.replace(wanted, path=small_disk / "models" / "tiny.gguf")
    assert "1.0 MB are needed, 0.5 MB are free" in refused(wanted)
    assert hub.asked == []
    with monkeypatch.context() as patch:  # something else takes the space meanwhile
        patch.setattr(files, "check_space", lambda *_: None)
        message = refused(wanted)
    assert "0.0 MB are free" in message
    assert "are kept in" in message
    assert wanted.path.with_name("tiny.gguf.part").stat().st_size > 400_000


# -- the hub -------------------------------------------------------------------


def test_the_hub_describes_what_it_redirects_to(
    hub: Hub, elsewhere: Hub, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret\n")
    path = "/someone/tiny/resolve/main/tiny.gguf"
    hub.redirects = {path: f"{elsewhere.url}/blob?signed"}
    hub.linked = {"X-Linked-Size": str(len(CONTENT)), "X-Linked-Etag": f'"{SHA256}"'}
    elsewhere.cuts = 1
    assert bring(unknown(wanted))
    assert wanted.path.read_bytes() == CONTENT
    token = "Bearer hf_secret"
    assert hub.asked == [
        Asked("HEAD", path, 0, token),
        Asked("GET", path, 0, token),
        Asked("GET", path, CUT_AFTER, token),
    ]
    assert elsewhere.asked == [
        Asked("GET", "/blob?signed", 0, None),
        Asked("GET", "/blob?signed", CUT_AFTER, None),
    ]
    assert wanted.path.with_name("tiny.gguf.ok").read_text().startswith(SHA256)


def test_the_hash_that_the_hub_names_must_be_right(
    hub: Hub, elsewhere: Hub, wanted: Wanted
) -> None:
    hub.redirects = {"/someone/tiny/resolve/main/tiny.gguf": f"{elsewhere.url}/blob"}
    hub.linked = {"X-Linked-Size": str(len(CONTENT)), "X-Linked-Etag": f'"{"0" * 64}"'}
    assert f"expected {'0' * 64}" in refused(unknown(wanted))


def test_the_token_goes_along_within_the_hub(
    hub: Hub, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.redirects = {"/someone/tiny/resolve/main/tiny.gguf": "/renamed"}
    assert bring(unknown(wanted))
    assert [asked.path for asked in hub.asked[1::2]] == ["/renamed"] * 2
    assert {asked.token for asked in hub.asked} == {"Bearer hf_secret"}


def test_the_token_is_the_hubs_alone(
    hub: Hub, elsewhere: Hub, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert bring(dataclasses.replace(unknown(wanted), url=f"{elsewhere.url}/tiny.gguf"))
    assert [asked.token for asked in elsewhere.asked] == [None, None]


@pytest.mark.parametrize("no_head", [False, True])
@pytest.mark.parametrize("lengths", [False, True])
def test_a_server_that_names_no_hash(
    hub: Hub, wanted: Wanted, part: Path, no_head: bool, lengths: bool
) -> None:
    hub.no_head, hub.lengths = no_head, lengths
    part.write_bytes(b"of another file")
    seen: list[tuple[int, int]] = []
    assert bring(unknown(wanted), lambda done, total: seen.append((done, total)))
    assert wanted.path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT) if lengths else 0)
    assert hub.starts == [0]


def test_what_is_cached_is_used_without_a_network(hub: Hub, wanted: Wanted) -> None:
    assert bring(unknown(wanted))
    asked = len(hub.asked)
    assert not bring(unknown(wanted))
    os.utime(wanted.path, (1, 1))
    assert not bring(unknown(wanted))
    assert len(hub.asked) == asked
    wanted.path.write_bytes(b"spoilt")
    assert bring(unknown(wanted))
    assert wanted.path.read_bytes() == CONTENT


@pytest.mark.parametrize(("content", "fetched"), [(CONTENT, False), (CONTENT[1:], True)])
def test_a_file_put_there_by_hand_must_have_the_servers_size(
    hub: Hub, wanted: Wanted, part: Path, content: bytes, fetched: bool
) -> None:
    wanted.path.write_bytes(content)
    assert bring(unknown(wanted)) == fetched
    assert wanted.path.read_bytes() == CONTENT
    assert not bring(unknown(wanted))


def test_a_redirect_in_circles_ends(hub: Hub, wanted: Wanted) -> None:
    path = "/someone/tiny/resolve/main/tiny.gguf"
    hub.redirects = {path: path}
    assert "in circles" in refused(unknown(wanted))
    assert "answered 302" in refused(wanted)


def test_a_redirect_does_not_leave_encryption() -> None:
    web.check_redirect("http://a/", "http://b/")
    web.check_redirect("https://a/", "https://b/")
    with pytest.raises(DownloadError, match="not https"):
        web.check_redirect("https://a/", "http://a/")


# -- two at once, and the rest -------------------------------------------------


def test_two_at_once_fetch_it_once(hub: Hub, wanted: Wanted) -> None:
    hub.gate = threading.Event()
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if "waiting" in line and hub.gate:
            hub.gate.set()

    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(bring, wanted, tell=tell) for _ in range(2)]
        assert sorted(run.result(30) for run in runs) == [False, True]
    assert hub.starts == [0]
    assert any("waiting for another run" in line for line in told)


def test_two_processes_at_once_fetch_it_once(hub: Hub, wanted: Wanted) -> None:
    hub.gate = threading.Event()
    program = (
        "import sys; from pathlib import Path; from vivace.download.files import bring\n"
        "from vivace.download.wanted import Wanted\n"
        f"w = Wanted(name='tiny', url={wanted.url!r}, path=Path({str(wanted.path)!r}),"
        f" size={wanted.size}, sha256={wanted.sha256!r})\n"
        "print(bring(w, tell=lambda line: print(line, file=sys.stderr, flush=True)))"
    )

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    with start() as first:
        assert first.stderr
        assert "from http" in first.stderr.readline()  # it has the lock
        with start() as second:
            assert second.stderr
            assert "waiting" in second.stderr.readline()
            hub.gate.set()
            assert second.communicate()[0] == "False\n"
        assert first.communicate()[0] == "True\n"
    assert hub.starts == [0]


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"VIVACE_CACHE": "/v", "XDG_CACHE_HOME": "/x"}, "linux", "/v"),
        ({"XDG_CACHE_HOME": "/x", "LOCALAPPDATA": "/l"}, "linux", "/x/vivace"),
        ({"LOCALAPPDATA": "/l"}, "win32", "/l/vivace"),
        ({"LOCALAPPDATA": "/l"}, "darwin", "~/.cache/vivace"),
        ({}, "win32", "~/.cache/vivace"),
        ({"VIVACE_CACHE": "~/c"}, "linux", "~/c"),
    ],
)
def test_the_cache(environment: dict[str, str], platform: str, expected: str) -> None:
    assert cache_root(environment, platform) == Path(expected).expanduser()
