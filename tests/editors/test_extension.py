"""The VS Code extension as it is written and packaged: what it may do, and what it may not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import vivace
from tests.support.files import ROOT
from vivace.lsp import extensions
from vivace.lsp.settings import Settings

EXTENSION = ROOT / "editors/vscode"
LONGEST = 900


@pytest.fixture(scope="module")
def manifest() -> Any:
    return json.loads((EXTENSION / "package.json").read_text("utf-8"))


def sources() -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in (EXTENSION / "src").glob("*.ts")}


def build(*arguments: str | Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("needs npm: install Node.js 20 or newer")
    if not (EXTENSION / "node_modules/.installed").exists():
        pytest.skip("needs what builds the extension: run scripts/extension")
    ran = subprocess.run(
        [ROOT / "scripts/extension", *arguments], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_its_types_are_right() -> None:
    build("--check")


@pytest.mark.release
def test_the_same_sources_make_the_same_package(tmp_path: Path) -> None:
    once, again = tmp_path / "once.vsix", tmp_path / "again.vsix"

    build(once)
    build(again)

    assert once.read_bytes() == again.read_bytes()
    names = zipfile.ZipFile(once).namelist()
    assert sorted(name for name in names if name.startswith("extension/")) == [
        "extension/LICENSE.txt",
        "extension/ThirdPartyNotices.txt",
        "extension/dist/main.js",
        "extension/package.json",
        "extension/readme.md",
    ]


def wheel(folder: Path, package: Path | None) -> Path:
    """Vivace packaged in a copy of the tree, after the extension was built or without it."""
    tree = folder / "tree"
    for part in ("src", "editors/neovim"):
        shutil.copytree(
            ROOT / part,
            tree / part,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
        )
    for part in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, tree)
    if package is not None:
        (tree / "dist").mkdir()
        shutil.copy(package, tree / "dist/vivace.vsix")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(tree)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    [made] = folder.glob("*.whl")
    return made


@pytest.mark.release
def test_a_wheel_that_is_built_after_it_installs_it(tmp_path: Path) -> None:
    package = tmp_path / "vivace.vsix"
    build(package)
    site, program = tmp_path / "site", tmp_path / "bin/code"
    zipfile.ZipFile(wheel(tmp_path, package)).extractall(site)
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n/bin/cp "$2" {tmp_path}/installed\n')
    program.chmod(0o755)

    ran = subprocess.run(
        [sys.executable, "-m", "vivace.cli", "connect", "vscode", "--write", "--yes"],
        env={"PATH": str(program.parent), "HOME": str(tmp_path), "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "installed").read_bytes() == package.read_bytes()


@pytest.mark.release
def test_a_wheel_can_be_built_without_it(tmp_path: Path) -> None:
    names = zipfile.ZipFile(wheel(tmp_path, None)).namelist()

    assert "vivace/cli/vscode.py" in names
    assert [name for name in names if name.endswith(".vsix")] == []


def test_it_stays_thin(manifest: Any) -> None:
    lines = sum(len(text.splitlines()) for text in sources().values())

    assert lines <= LONGEST
    assert list(manifest["dependencies"]) == ["vscode-languageclient"]


def test_it_has_the_version_of_what_it_belongs_to(manifest: Any) -> None:
    assert manifest["version"] == vivace.__version__


def test_a_repository_can_neither_redirect_code_nor_run_a_program(manifest: Any) -> None:
    settings = manifest["contributes"]["configuration"]["properties"]

    assert {name for name, setting in settings.items() if setting.get("scope") == "machine"} == {
        "vivace.command",
        "vivace.address",
    }
    assert manifest["capabilities"]["untrustedWorkspaces"]["supported"] == "limited"


def test_the_settings_are_few_and_explained(manifest: Any) -> None:
    settings = manifest["contributes"]["configuration"]["properties"]
    readme = (EXTENSION / "README.md").read_text("utf-8")

    assert len(settings) <= 10
    assert [name for name in settings if f"`{name}`" not in readme] == []


def test_everything_can_be_done_by_command(manifest: Any) -> None:
    offered = {each["command"] for each in manifest["contributes"]["commands"]}

    registered = set(re.findall(r'"(vivace\.\w+)": (?:async )?\(', sources()["commands.ts"]))

    assert offered == registered


def test_tab_is_left_alone_where_it_moves_the_focus(manifest: Any) -> None:
    keys = manifest["contributes"]["keybindings"]

    for binding in (each for each in keys if "tab" in each["key"]):
        assert "!editorTabMovesFocus" in binding["when"].split(" && ")


def test_it_runs_where_the_files_are(manifest: Any) -> None:
    assert manifest["extensionKind"] == ["workspace"]


def test_the_servers_settings_can_be_made_with_the_same_defaults(manifest: Any) -> None:
    offered = manifest["contributes"]["configuration"]["properties"]

    known = dict(flat(msgspec.to_builtins(Settings())))

    assert {name: offered[f"vivace.{name}"]["default"] for name in known} == known


def flat(settings: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def test_it_mirrors_what_the_server_adds_to_the_protocol() -> None:
    mirror = sources()["protocol.ts"]
    bodies = re.findall(r"export interface (\w+) \{(.*?)\n\}", mirror, re.DOTALL)
    interfaces = {name: set(re.findall(r"\n  (\w+)\??:", body)) for name, body in bodies}
    constants = dict(re.findall(r'export const (\w+) = (?:new \S+\()?"(.+?)"', mirror))

    named = {name: getattr(extensions, name) for name in extensions.__all__}

    assert constants == {name: value for name, value in named.items() if isinstance(value, str)}
    assert interfaces == {
        name: {field.encode_name for field in msgspec.structs.fields(value)}
        for name, value in named.items()
        # How they ended is told by a message.
        if isinstance(value, type) and value not in (extensions.EditEnded, extensions.ReviewEnded)
    }


@pytest.mark.parametrize("folder", ["editors/vscode", "tests/clients", "tests/editors"])
def test_lock_files_name_no_registry_and_verify_every_package(folder: str) -> None:
    lock = json.loads((ROOT / folder / "package-lock.json").read_text("utf-8"))

    for name, package in lock["packages"].items():
        if name:
            assert "resolved" not in package, name
            assert package.get("integrity") or package.get("inBundle"), name
