"""scripts/fetch.py against a real server on loopback: resume, refusal, substitute, cache."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
CONTENT = bytes(range(256)) * 4096
CUT_AFTER = 300_000


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


fetch = load_script("fetch")


class Hub(ThreadingHTTPServer):
    """Serves CONTENT; can cut its answers short, ignore ranges or answer an error."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.starts: list[int] = []
        self.cuts = 0
        self.ranges = True
        self.status: int | None = None


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        hub = self.server
        asked = self.headers.get("Range") if hub.ranges else None
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        hub.starts.append(start)
        if hub.status:
            self.send_error(hub.status)
            return
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = len(CONTENT)
        if hub.cuts:
            hub.cuts -= 1
            end = start + CUT_AFTER
        self.wfile.write(CONTENT[start:end])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("VIVACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("VIVACE_FETCH", raising=False)
    monkeypatch.setattr(fetch.time, "sleep", lambda _: None)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*argv: str, sha256: str = hashlib.sha256(CONTENT).hexdigest()) -> int:
        manifest = tmp_path / "manifest.toml"
        manifest.write_text(
            f"""
            [[entry]]
            name = "tiny"
            kind = "model"
            file = "tiny.gguf"
            sha256 = "{sha256}"
            size = {len(CONTENT)}
            licence = "Apache-2.0"
            default = true
            source = {{ huggingface = "someone/tiny", revision = "main", path = "tiny.gguf" }}
            """
        )
        code = fetch.main("models", argv, manifest)
        assert isinstance(code, int)
        return code

    return run


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models" / "tiny.gguf"


def substitute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "substitute"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("VIVACE_FETCH", str(program))


def test_a_second_run_asks_nobody(hub: Hub, run: Run, kept: Path) -> None:
    assert run() == 0
    assert kept.read_bytes() == CONTENT
    assert run("tiny") == 0
    assert hub.starts == [0]


def test_a_cut_download_goes_on_where_it_stopped(hub: Hub, run: Run, kept: Path) -> None:
    hub.cuts = 2
    assert run() == 0
    assert kept.read_bytes() == CONTENT
    assert hub.starts == [0, CUT_AFTER, 2 * CUT_AFTER]


def test_a_later_run_resumes_the_part_file(hub: Hub, run: Run, kept: Path) -> None:
    kept.parent.mkdir(parents=True)
    kept.with_name("tiny.gguf.part").write_bytes(CONTENT[:1000])
    assert run() == 0
    assert kept.read_bytes() == CONTENT
    assert hub.starts == [1000]


def test_a_server_without_ranges_sends_it_all_again(hub: Hub, run: Run, kept: Path) -> None:
    hub.cuts, hub.ranges = 1, False
    assert run() == 0
    assert kept.read_bytes() == CONTENT
    assert hub.starts == [0, 0]


def test_failing_servers_are_left_and_what_came_is_kept(hub: Hub, run: Run, kept: Path) -> None:
    part = kept.with_name("tiny.gguf.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:1000])
    hub.status = 503
    assert run() == 1
    assert hub.starts == [1000] * fetch.BARREN_TRIES
    assert part.read_bytes() == CONTENT[:1000]
    hub.status = 404
    assert run() == 1
    assert len(hub.starts) == fetch.BARREN_TRIES + 1


def test_a_part_longer_than_the_servers_file_is_dropped(hub: Hub, run: Run, kept: Path) -> None:
    part = kept.with_name("tiny.gguf.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:1000])
    hub.status = 416
    assert run() == 1
    assert not part.exists()


def test_a_wrong_hash_is_refused(
    hub: Hub, run: Run, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(sha256="0" * 64) == 1
    assert not kept.exists()
    assert not kept.with_name("tiny.gguf.part").exists()
    assert "refused and removed" in capsys.readouterr().err


def test_a_spoilt_cached_file_is_fetched_again(hub: Hub, run: Run, kept: Path) -> None:
    assert run() == 0
    kept.write_bytes(CONTENT[:-1] + b"?")
    assert run() == 0
    assert kept.read_bytes() == CONTENT
    assert hub.starts == [0, 0]


def test_a_file_put_there_by_hand_is_taken(hub: Hub, run: Run, kept: Path) -> None:
    kept.parent.mkdir(parents=True)
    kept.write_bytes(CONTENT)
    assert run() == 0
    assert hub.starts == []


def test_the_substitute_comes_first(
    hub: Hub, run: Run, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny").write_bytes(CONTENT)
    substitute(tmp_path, monkeypatch, f'cp "{tmp_path}/$1" "$2"')
    assert run() == 0
    assert kept.read_bytes() == CONTENT
    assert hub.starts == []


def test_a_substitute_without_the_file_leads_to_the_hub(
    hub: Hub, run: Run, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    substitute(tmp_path, monkeypatch, "exit 3")
    assert run() == 0
    assert kept.read_bytes() == CONTENT


@pytest.mark.parametrize("script", ['echo wrong >"$2"', 'echo half >"$2"; exit 1'])
def test_a_bad_substitute_leaves_nothing(
    hub: Hub, run: Run, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    substitute(tmp_path, monkeypatch, script)
    assert run() == 1
    assert not kept.exists()
    assert not kept.with_name("tiny.gguf.part").exists()
    assert hub.starts == []


def test_path_prints_without_fetching(
    hub: Hub, run: Run, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--path", "tiny") == 0
    assert capsys.readouterr().out == f"{kept}\n"
    assert not kept.exists()


def test_an_unknown_name_is_answered_with_the_nearest(
    hub: Hub, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("tinny") == 2
    assert "did you mean tiny?" in capsys.readouterr().err


def test_the_manifest_is_whole() -> None:
    entries = [*fetch.load("data"), *fetch.load("model")]
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        assert entry.url.startswith("https://")
        assert len(entry.sha256) == 64
        assert entry.size > 0
        assert entry.licence
