"""What manifests say a project depends on, under the names it is imported by."""

from __future__ import annotations

import pytest

from vivace.workspace.manifests import is_manifest, manifest_of

PYPROJECT = """
[project]
name = "my-tool"
dependencies = ["PyYAML>=6", "httpx[http2] ~= 0.27"]
optional-dependencies.extra = ["python-dotenv"]
[dependency-groups]
dev = ["pytest", {include-group = "x"}]
[tool.poetry.dependencies]
rich = "*"
"""
CARGO = """
[package]
name = "my-crate"
[dependencies]
serde-json = "1"
[target.'cfg(unix)'.dependencies]
libc = "0.2"
"""
GO = """module example.org/m

go 1.21

require github.com/a/b v1.2.3
require (
\tgopkg.in/yaml.v3 v3.0.1 // indirect
)
"""


@pytest.mark.parametrize(
    ("path", "text", "name", "declared"),
    [
        ("pyproject.toml", PYPROJECT, "my_tool", {"yaml", "httpx", "dotenv", "pytest", "rich"}),
        ("requirements-dev.txt", "# x\n-r a.txt\nFlask==3\n", "", {"flask"}),
        ("package.json", '{"name": "a", "devDependencies": {"@types/node": "1"}}', "a", {"node"}),
        ("go.mod", GO, "example.org/m", {"github.com/a/b", "gopkg.in/yaml.v3"}),
        ("Cargo.toml", CARGO, "my_crate", {"serde_json", "libc"}),
        ("pom.xml", "<dependency><groupId>org.a</groupId></dependency>", "", {"org.a"}),
    ],
)
def test_what_is_declared(path: str, text: str, name: str, declared: set[str]) -> None:
    found = manifest_of(f"a/b/{path}", text)
    assert found is not None
    assert (found.kind, found.folder, found.name) == (path, "a/b", name)
    assert declared <= set(found.declared)


@pytest.mark.parametrize("path", ["pyproject.toml", "package.json", "Cargo.toml"])
@pytest.mark.parametrize("text", ["{", "[]", '{"dependencies": 1}', 'project = "x"'])
def test_one_that_is_not_what_it_should_be_says_nothing(path: str, text: str) -> None:
    found = manifest_of(path, text)
    assert found is None or not found.declared


def test_lists_in_a_folder_for_them_hold_for_what_is_beside_it() -> None:
    found = manifest_of("a/requirements/common.txt", "regex\n")
    assert found is not None
    assert (found.folder, found.declared) == ("a", ("regex",))


def test_other_files_are_none() -> None:
    assert not is_manifest("a/package-lock.json")
    assert manifest_of("a.txt", "") is None
