"""Nothing that Vivace starts imports from the current folder, which may be a hostile clone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.files import ROOT
from tests.support.ports import free_port
from vivace.cli.own_server import own_server
from vivace.desk.checking import run_check
from vivace.engines.base import Card
from vivace.engines.llamacpp import LlamaCppEngine, accelerators
from vivace.engines.vllm import WRITTEN_FOR, VllmEngine
from vivace.engines.watchdog import Watchdog
from vivace.errors import ConfigError, EngineDied
from vivace.interpreter import children_environment, python_command

_SHADOWED = ("vivace", "multiprocessing", "signal", "threading", "xllamacpp", "pip")


class Clone:
    """The current folder, whose packages have the names of others and say when they are run."""

    def __init__(self, folder: Path, ran: Path) -> None:
        self.folder = folder
        self._ran = ran
        code = f"import os, sys; open({str(ran)!r}, 'a').write(__name__ + chr(10)); os._exit(9)\n"
        for name in _SHADOWED:
            (folder / name).mkdir(parents=True)
            (folder / name / "__init__.py").write_text(code)

    def ran(self) -> list[str]:
        return self._ran.read_text().splitlines() if self._ran.exists() else []


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    made = Clone(tmp_path / "clone", tmp_path / "ran")
    monkeypatch.chdir(made.folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return made


@pytest.fixture
def llama_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Play a llama-server that writes down its folders; return the file."""
    said, program = tmp_path / "folders", tmp_path / "bin" / "llama-server"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\npwd >> '{said}'\necho '  GPU0: played'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return said


def test_modules_of_the_current_folder_are_those_of_a_plain_interpreter(clone: Clone) -> None:
    """Without -P the clone's are run: what the other tests say is not so by chance."""
    subprocess.run([sys.executable, "-c", "import vivace"], check=False)
    assert clone.ran() == ["vivace"]


def test_a_command_of_ours_imports_nothing_from_the_current_folder(clone: Clone) -> None:
    code = "import multiprocessing, signal, threading, vivace; print('whole')"
    assert subprocess.check_output(python_command("-c", code)) == b"whole\n"
    assert clone.ran() == []


def test_a_server_of_our_own_imports_nothing_from_the_current_folder(clone: Clone) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    with pytest.raises(ConfigError, match="did not start"), own_server(url, "./no.gguf", 4096):
        pass
    assert clone.ran() == []


def test_an_engine_neither_imports_nor_runs_in_the_current_folder(
    clone: Clone, llama_server: Path
) -> None:
    """llama.cpp loads libggml-*.so from the folder that it runs in."""
    card = Card("m", 4096)
    engine = LlamaCppEngine("m", card, Path("m.gguf"), template=Path("t.jinja"), drafts=True)
    assert str(clone.folder / "m.gguf") in engine._command
    assert str(clone.folder / "t.jinja") in engine._command
    with pytest.raises(EngineDied):
        asyncio.run(engine.start())
    assert accelerators() == ["GPU0: played"]
    assert clone.ran() == []
    folders = set(llama_server.read_text().splitlines())
    assert folders == {"/"}


def test_a_watchdog_imports_nothing_from_the_current_folder(clone: Clone) -> None:
    watchdog = Watchdog()
    assert watchdog._process.stdin is not None
    watchdog._process.stdin.close()
    assert watchdog._process.wait() == 0
    assert clone.ran() == []


# On macOS each process begins anew, beside one that tracks what they share.
_SCANS = """
import multiprocessing, pathlib
from vivace.desk import scan
from vivace.desk.rules import Choice
from vivace.workspace.paths import SafePath

scan._context = lambda: multiprocessing.get_context("spawn")
scan._PORTION = 10
if __name__ == "__main__":
    files = [SafePath(pathlib.Path.cwd(), (name,)) for name in ("a.py", "b.py")]
    for each in scan.scan_files(files, pathlib.Path.cwd(), Choice(), 2):
        print(each.path, each.lines, each.skipped)
"""


def test_processes_that_scan_import_nothing_from_the_current_folder(
    clone: Clone, tmp_path: Path
) -> None:
    (tmp_path / "program").mkdir()
    program = tmp_path / "program" / "scans.py"
    program.write_text(_SCANS)
    for name in ("a.py", "b.py"):
        (clone.folder / name).write_text("def f(a):\n    return a\n")
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert sorted(ran.stdout.splitlines()) == ["a.py 2 None", "b.py 2 None"]
    assert clone.ran() == []


def test_vllm_starts_its_processes_with_the_current_folder_off_their_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, str | None] = {}

    def arguments(**_: object) -> None:
        seen.update({name: os.environ.get(name) for name in ("PYTHONSAFEPATH", "OWN")})
        raise ValueError("seen enough")

    for name in ("vllm", "vllm.engine", "vllm.engine.arg_utils", "vllm.v1", "vllm.v1.engine"):
        module: Any = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    last: Any = ModuleType("vllm.v1.engine.async_llm")
    monkeypatch.setitem(sys.modules, last.__name__, last)
    last.AsyncLLM = None
    monkeypatch.setattr(sys.modules["vllm"], "__version__", f"{WRITTEN_FOR}.0", raising=False)
    arg_utils = sys.modules["vllm.engine.arg_utils"]
    monkeypatch.setattr(arg_utils, "AsyncEngineArgs", arguments, raising=False)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with pytest.raises(ConfigError, match="seen enough"):
        VllmEngine("v", Card("m", 4096), "m", environment={"OWN": "2"})._load()
    assert seen == {"PYTHONSAFEPATH": "1", "OWN": "2"}
    assert "PYTHONSAFEPATH" not in os.environ


def test_programs_of_the_person_do_not_inherit_it(clone: Clone) -> None:
    with children_environment({"OTHER": "1"}):
        assert (os.environ["PYTHONSAFEPATH"], os.environ["OTHER"]) == ("1", "1")
    said: list[bytes] = []
    command = f"'{sys.executable}' -c 'import pip'; echo $PYTHONSAFEPATH $OTHER"
    asyncio.run(run_check(command, clone.folder, said.append))
    assert b"".join(said) == b"\n"
    assert clone.ran() == ["pip"]


def test_what_the_person_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "2")
    with children_environment():
        assert os.environ["PYTHONSAFEPATH"] == "1"
    assert os.environ["PYTHONSAFEPATH"] == "2"


def test_the_interpreter_is_named_in_no_other_module() -> None:
    """ruff says so, as long as it is told."""
    code = "import sys\n\ncommand = [sys.executable]\n"
    for name, status in (("vivace/new.py", 1), ("vivace/interpreter.py", 0)):
        command = ["-m", "ruff", "check", "--select", "TID251", "--stdin-filename", f"src/{name}"]
        ran = subprocess.run(
            [sys.executable, *command, "-"], input=code, text=True, cwd=ROOT, capture_output=True
        )
        assert (ran.returncode, "sys.executable" in ran.stdout) == (status, bool(status))
