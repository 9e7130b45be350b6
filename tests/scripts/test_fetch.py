"""scripts/fetch.py: the manifest, the substitute and what it prints, against a loopback server."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.download.test_files import CONTENT, SHA256, Hub, hub

__all__ = ["hub"]

SCRIPTS = Path(__file__).parents[2] / "scripts"


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


fetch = load_script("fetch")

Run = Callable[..., int]


@pytest.fixture
def run(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("VIVACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("VIVACE_FETCH", raising=False)

    def run(*argv: str, sha256: str = SHA256) -> int:
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


def test_it_says_what_it_did(
    hub: Hub, run: Run, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    assert kept.read_bytes() == CONTENT
    said = capsys.readouterr()
    assert said.out == f"tiny: fetched 1.0 MB in 0 s: {kept}\n"
    assert said.err == f"tiny: Apache-2.0\ntiny: 1.0 MB from {hub.url}{hub.asked[0].path}\n"
    assert run("tiny") == 0
    assert capsys.readouterr() == (f"tiny: present: {kept}\n", "")
    assert hub.starts == [0]


def test_what_is_refused_fails_the_run(
    run: Run, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(sha256="0" * 64) == 1
    assert not kept.exists()
    said = capsys.readouterr().err
    assert "tiny: refused and removed" in said
    assert f"put the file at {kept} by hand" in said


def test_the_substitute_comes_first(
    hub: Hub, run: Run, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny").write_bytes(CONTENT)
    substitute(tmp_path, monkeypatch, f'cp "{tmp_path}/$1" "$2"')
    assert run() == 0
    assert kept.read_bytes() == CONTENT
    assert hub.asked == []


def test_a_substitute_without_the_file_leads_to_the_hub(
    hub: Hub, run: Run, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    substitute(tmp_path, monkeypatch, "exit 3")
    assert run() == 0
    assert kept.read_bytes() == CONTENT
    assert hub.starts == [0]


@pytest.mark.parametrize("script", ['echo wrong >"$2"', 'echo half >"$2"; exit 1', "exit 0"])
def test_a_bad_substitute_leaves_nothing(
    hub: Hub, run: Run, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    substitute(tmp_path, monkeypatch, script)
    assert run() == 1
    assert not kept.exists()
    assert not kept.with_name("tiny.gguf.part").exists()
    assert hub.asked == []


def test_a_substitute_that_is_not_there_is_said(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VIVACE_FETCH", "/nowhere/at/all")
    assert run() == 1
    assert "tiny: VIVACE_FETCH cannot be run" in capsys.readouterr().err


def test_path_prints_without_fetching(
    hub: Hub, run: Run, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--path", "tiny") == 0
    assert capsys.readouterr().out == f"{kept}\n"
    assert not kept.exists()
    assert hub.asked == []


def test_an_unknown_name_is_answered_with_the_nearest(
    run: Run, capsys: pytest.CaptureFixture[str]
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
