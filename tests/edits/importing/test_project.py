"""Whether an import is the project's own, or of what it depends on."""

from __future__ import annotations

import pytest

from vivace.edits.importing.project import Manifest, Modules, Project

PATHS = (
    "src/p/__init__.py",
    "src/p/text.py",
    "src/p/sub/__init__.py",
    "tests/requests.py",
    "web/lib/text.ts",
    "web/style.css",
    "include/own.h",
)
MANIFESTS = (
    Manifest("pyproject.toml", "", "p", ("yaml", "httpx")),
    Manifest("package.json", "web", "web", ("react", "@scope/kit")),
)


def has(path: str, module: str) -> bool:
    return Modules(Project({}, PATHS, MANIFESTS), path).has(module)


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("src/p/a.py", "p.text"),
        ("src/p/a.py", ".text"),
        ("src/p/sub/a.py", "..text"),
        ("src/p/a.py", "."),
        ("src/p/a.py", "yaml"),
        ("src/p/a.py", "httpx.client"),
        ("tests/test_a.py", "requests"),
        ("web/a.ts", "./lib/text"),
        ("web/a.ts", "./lib/text.js"),
        ("web/a.ts", "./style.css"),
        ("web/a.ts", "@/lib/text"),
        ("web/a.ts", "react"),
        ("web/a.ts", "react/jsx-runtime"),
        ("web/a.ts", "@scope/kit"),
        ("a.c", "own.h"),
        ("a.c", "include/own.h"),
    ],
)
def test_the_projects_own_and_what_it_depends_on_are_there(path: str, module: str) -> None:
    assert has(path, module)


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("src/p/a.py", "p.nothing"),
        ("src/p/a.py", ".nothing"),
        ("src/p/a.py", "text"),
        ("src/p/a.py", "requests"),
        ("src/p/a.py", "react"),
        ("web/a.ts", "./text"),
        ("web/a.ts", "lodash"),
        ("web/a.ts", "react-dom"),
        ("other/a.ts", "react"),
        ("a.c", "their.h"),
    ],
)
def test_what_nobody_has_is_not(path: str, module: str) -> None:
    assert not has(path, module)
