"""The core decides and nothing more: it brings in nothing that waits, listens or tells the time."""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import vivace

ROOT = Path(vivace.__file__).parent
_NEEDS = {
    "vivace.engines.vllm_edits": "vllm",  # only vLLM itself imports these
    "vivace.engines.vllm_lenient": "vllm",
    "vivace.engines.xllamacpp_server": "xllamacpp",  # a program with the extra llamacpp
}
"""Modules that need what may not be installed."""
MODULES = [
    "vivace",
    *(
        found.name
        for found in pkgutil.walk_packages([str(ROOT)], "vivace.")
        if not found.name.endswith("__main__")  # a program, not a module to be imported
        and (found.name not in _NEEDS or importlib.util.find_spec(_NEEDS[found.name]) is not None)
    ),
]
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


def test_core_is_found() -> None:
    assert {"vivace.errors", "vivace.protocol.codec", "vivace.conversation.turn"} <= set(CORE)


def test_core_brings_in_nothing_that_waits_or_listens() -> None:
    program = f"import sys, {', '.join(CORE)}; print('\\n'.join(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert "msgspec" in loaded
    assert loaded & HEAVY == set()


def test_core_takes_neither_the_time_nor_chance() -> None:
    found = {name: _imported(name) & (IMPURE | HEAVY | {"importlib"}) for name in CORE}
    assert {name: impure for name, impure in found.items() if impure} == {}


def _imported(name: str) -> set[str]:
    """Return the packages that a module imports, wherever it does."""
    imported: set[str] = set()
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Name):
            assert node.id != "__import__", name
    return imported


def _tree(name: str) -> ast.Module:
    return ast.parse(path_of(name).read_text(encoding="utf-8"))


def test_core_never_waits() -> None:
    waits = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    found = [
        f"{name}:{node.lineno}"
        for name in CORE
        for node in ast.walk(_tree(name))
        if isinstance(node, waits)
    ]
    assert found == []


def test_public_names_exist_and_are_listed_once() -> None:
    wrong = []
    for name in MODULES:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", [])
        wrong += [f"{name}.{each}" for each in public if not hasattr(module, each)]
        wrong += [name] if len(public) != len(set(public)) else []
    assert wrong == []


def test_modules_list_their_public_names() -> None:
    modules = [name for name in MODULES if path_of(name).stem != "__init__"]
    assert [each for each in modules if not importlib.import_module(each).__all__] == []
