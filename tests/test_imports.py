"""The core decides and nothing more: it brings in nothing that waits, listens or tells the time."""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import vivace

ROOT = Path(vivace.__file__).parent
MODULES = [
    "vivace",
    *(
        found.name
        for found in pkgutil.walk_packages([str(ROOT)], "vivace.")
        if not found.name.endswith("__main__")  # a program, not a module to be imported
    ),
]
if importlib.util.find_spec("vllm") is None:  # only vLLM itself imports these
    MODULES.remove("vivace.engines.vllm_edits")
    MODULES.remove("vivace.engines.vllm_lenient")
CORE = [
    name
    for name in MODULES
    if name.startswith(
        (
            "vivace.edits",
            "vivace.errors",
            "vivace.prot",
            "vivace.conv",
            "vivace.sched",
            "vivace.spec",
        )
    )
]
HEAVY = {
    "aiohttp",
    "asyncio",
    "http",
    "httptools",
    "httpx",
    "requests",
    "socket",
    "ssl",
    "starlette",
    "urllib3",
    "uvicorn",
    "uvloop",
    "websockets",
}
IMPURE = {"datetime", "random", "secrets", "time", "uuid"}


def path_of(name: str) -> Path:
    base = ROOT.parent.joinpath(*name.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def test_the_core_was_found() -> None:
    assert {"vivace.errors", "vivace.protocol.codec", "vivace.conversation.turn"} <= set(CORE)


def test_the_core_brings_in_nothing_that_waits_or_listens() -> None:
    program = f"import sys, {', '.join(CORE)}; print('\\n'.join(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert "msgspec" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("name", CORE)
def test_the_core_takes_neither_the_time_nor_chance(name: str) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path_of(name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Name):
            assert node.id != "__import__"
    assert imported & (IMPURE | HEAVY | {"importlib"}) == set()


@pytest.mark.parametrize("name", CORE)
def test_nothing_in_the_core_waits(name: str) -> None:
    tree = ast.parse(path_of(name).read_text(encoding="utf-8"))
    waits = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, waits)] == []


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_exists_and_is_listed_once(name: str) -> None:
    module = importlib.import_module(name)
    public = getattr(module, "__all__", [])
    assert [each for each in public if not hasattr(module, each)] == []
    assert len(public) == len(set(public))


@pytest.mark.parametrize("name", [name for name in MODULES if path_of(name).stem != "__init__"])
def test_every_module_lists_its_public_names(name: str) -> None:
    assert importlib.import_module(name).__all__
