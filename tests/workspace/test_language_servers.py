"""A project names programs in many ways, and no language server is to run one for a rename."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vivace.workspace import language_servers as subject
from vivace.workspace.language_server import ServerFailed, running
from vivace.workspace.language_servers import Server, server_for

_SERVERS = {
    "basedpyright-langserver": "python",
    "pyright-langserver": "python",
    "typescript-language-server": "typescript",
    "clangd": "c",
    "gopls": "go",
    "rust-analyzer": "rust",
}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Make the PATH a folder of its own, into which a program is put by its path."""

    def put(name: str) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return put


def test_only_what_is_on_the_path_is_a_server(root: Path, programs: Callable[[str], Path]) -> None:
    languages = ("python", "typescript", "c", "go", "rust", "java")
    assert [server_for(language, root) for language in languages] == [None] * 6
    path = programs("pyright-langserver")
    found = server_for("python", root)
    assert found is not None
    assert (found.name, found.command) == ("pyright", (str(path), "--stdio"))


def test_python_servers_are_told_an_interpreter(
    root: Path, programs: Callable[[str], Path]
) -> None:
    programs("basedpyright-langserver")
    assert _python_path(server_for("python", root)) == sys.executable
    python = programs("python3")
    assert _python_path(server_for("python", root)) == str(python)


def _python_path(server: Server | None) -> str:
    assert server is not None
    return str(server.settings["python"]["pythonPath"])


@pytest.mark.parametrize("place", ["beside the server", "on the PATH"])
def test_typescripts_server_is_told_its_typescript(
    root: Path, programs: Callable[[str], Path], place: str
) -> None:
    _typescript(root / "node_modules/typescript")
    program = programs("typescript-language-server")
    assert server_for("typescript", root) is None
    if place == "on the PATH":
        package = _typescript(root.parent / "other/typescript")
        program.with_name("tsserver").symlink_to(package / "bin/tsserver")
    else:
        package = _typescript(root.parent / "lib/node_modules/typescript")
        script = root.parent / "lib/node_modules/typescript-language-server/lib/cli.mjs"
        script.parent.mkdir(parents=True)
        program.rename(script)
        program.symlink_to(script)
    server = server_for("typescript", root)
    assert server is not None
    assert server.options["tsserver"] == {"path": str(package / "lib/tsserver.js")}


def _typescript(package: Path) -> Path:
    for name in ("lib/tsserver.js", "bin/tsserver"):
        (package / name).parent.mkdir(parents=True)
        (package / name).write_text("#!/usr/bin/env node\n")
        (package / name).chmod(0o755)
    return package


# -- Rust -----------------------------------------------------------------------------------------


@pytest.fixture
def crate(root: Path, programs: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    programs("rust-analyzer")
    monkeypatch.delenv("RUSTUP_TOOLCHAIN", raising=False)
    monkeypatch.setenv("RUSTUP_HOME", str(root.parent / "rustup"))
    (root / "Cargo.toml").write_text('[package]\nname = "m"\n')
    return root


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_rust_is_told_the_persons_toolchain(crate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rustup takes the one that rust-toolchain.toml names, a folder of the project, otherwise."""
    assert _toolchain(crate) == "none"
    put(crate.parent / "rustup/settings.toml", 'default_toolchain = "stable-x"\n')
    assert _toolchain(crate) == "stable-x"
    monkeypatch.setenv("RUSTUP_TOOLCHAIN", "nightly")
    assert _toolchain(crate) == "nightly"


def _toolchain(crate: Path) -> str:
    server = server_for("rust", crate)
    assert server is not None
    return server.environment["RUSTUP_TOOLCHAIN"]


def test_rust_is_told_its_projects(crate: Path) -> None:
    """A rust-project.json has a sysroot, whose programs are run."""
    put(crate / "rust-project.json", "{}")
    put(crate / "inner/Cargo.toml", "")
    assert _projects(crate) == [str(crate / "Cargo.toml")]
    (crate / "Cargo.toml").unlink()
    assert _projects(crate) == [str(crate / "inner/Cargo.toml")]
    (crate / "inner/Cargo.toml").unlink()
    assert server_for("rust", crate) is None


def _projects(crate: Path) -> list[str]:
    server = server_for("rust", crate)
    assert server is not None
    assert server.options["cargo"] == {"buildScripts": {"enable": False}}
    assert server.options["procMacro"] == {"enable": False}
    projects: list[str] = server.options["linkedProjects"]
    return projects


@pytest.mark.parametrize(
    "name", [".cargo/config.toml", ".cargo/config", ".CARGO/config", "target/deep/.cargo/config"]
)
def test_rust_is_left_alone_where_the_project_has_settings_of_cargos(
    crate: Path, name: str
) -> None:
    put(crate / name, '[env]\nLD_PRELOAD = "evil.so"\n')
    assert server_for("rust", crate) is None


def test_settings_of_cargos_count_behind_a_link_too(crate: Path) -> None:
    put(crate / "innocent/config.toml", '[build]\nrustc-wrapper = "./evil"\n')
    (crate / ".cargo").symlink_to("innocent")
    assert server_for("rust", crate) is None


def test_settings_of_cargos_may_abbreviate_commands(crate: Path) -> None:
    put(crate / ".cargo/config.toml", '[alias]\nxtask = "run --package xtask"\n')
    assert server_for("rust", crate) is not None
    put(crate / ".cargo/config.toml", "[alias\n")
    assert server_for("rust", crate) is None


def test_rust_is_left_alone_where_there_are_too_many_folders_to_look_into(
    crate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "_MAX_FOLDERS", 2)
    put(crate / "src/main.rs", "")
    assert server_for("rust", crate) is not None
    put(crate / "tests/main.rs", "")
    assert server_for("rust", crate) is None


# -- the real ones --------------------------------------------------------------------------------

_FILES = {
    "python": ("main.py", "def first(a):\n    return a\n\n\nfirst(1)\n", (0, 5)),
    "typescript": ("main.ts", "export function first() {}\nfirst();\n", (0, 17)),
    "c": ("main.c", "int first(void) { return 1; }\nint second = first();\n", (0, 5)),
    "go": ("main.go", "package main\n\nfunc first() {}\n\nfunc main() { first() }\n", (2, 6)),
    "rust": ("src/main.rs", "fn first() {}\nfn main() { first(); }\n", (0, 3)),
}


@pytest.mark.release
@pytest.mark.parametrize("program", _SERVERS)
def test_a_rename_runs_nothing_of_a_hostile_project(
    program: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, language = shutil.which(program), _SERVERS[program]
    if found is None:
        pytest.skip(f"{program} is not on the PATH")
    name, text, (line, character) = _FILES[language]
    traps(root, tmp_path / "ran")
    put(root / name, text)
    others = {*_SERVERS} - {program}
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda each: None if each in others else which(each))
    server = server_for(language, root)
    if server is None:
        pytest.skip(f"{program} is not started here, as without a TypeScript that has a tsserver")

    async def renamed() -> object:
        async with running(server, root) as asked:
            await asked.open(root / name, language, text)
            await asked.has_read()
            place = {"line": line, "character": character}
            about = {"textDocument": {"uri": (root / name).as_uri()}, "position": place}
            return await asked.ask("textDocument/rename", about | {"newName": "renamed"})

    ran = tmp_path / "ran"
    try:
        answer = json.dumps(asyncio.run(renamed()))
    except ServerFailed as error:
        answer = str(error)
    assert not ran.exists(), ran.read_text()
    if "renamed" not in answer:
        pytest.skip(f"{program} does not work here: {answer}")


def traps(root: Path, ran: Path) -> None:
    """Put programs of all kinds where one server or another looks for them."""
    says = f"#!/bin/sh\necho \"$0 $*\" >> '{ran}'\nexit 1\n"
    for folder in (".venv/bin", "venv/bin", "toolchain/bin", "."):
        for name in ("python", "python3", "rustc", "cargo", "gcc", "clang", "go", "node", "git"):
            put(root / folder / name, says)
            (root / folder / name).chmod(0o755)
    for folder in (".venv", "venv"):
        put(root / folder / "pyvenv.cfg", "home = /usr/bin\n")
        (root / folder / "lib/python3.11/site-packages").mkdir(parents=True)
    python = f"open({str(ran)!r}, 'a').write(__name__ + chr(10))\n"
    for name in ("json", "site", "sitecustomize", "encodings"):
        put(root / f"{name}.py", python)
    node = f"require('fs').appendFileSync({str(ran)!r}, __filename + '\\n')\n"
    for name in ("tsserver", "typescript", "tsserverlibrary"):
        put(root / f"node_modules/typescript/lib/{name}.js", node)
    put(root / "node_modules/typescript/package.json", '{"version": "5.9.0"}')
    put(root / "node_modules/plugin/index.js", node)
    put(root / ".pnp.cjs", node)
    plugins = [{"name": "plugin"}, {"name": "./node_modules/plugin"}]
    put(root / "tsconfig.json", json.dumps({"compilerOptions": {"plugins": plugins}}))
    put(root / "Cargo.toml", '[package]\nname = "m"\nedition = "2021"\nbuild = "build.rs"\n')
    put(root / "build.rs", f'fn main() {{ std::fs::write("{ran}", "build.rs").unwrap(); }}\n')
    put(root / "rust-toolchain.toml", f'[toolchain]\npath = "{root}/toolchain"\n')
    put(root / "rust-project.json", json.dumps({"sysroot": f"{root}/toolchain", "crates": []}))
    put(root / "rust-analyzer.toml", f'check.overrideCommand = ["{root}/python"]\n')
    put(root / "go.mod", "module example.org/m\n\ngo 1.21\n")
    command = [f"{root}/gcc", f"-fplugin={root}/evil.so", "-c", "main.c"]
    entry = {"directory": str(root), "file": "main.c", "arguments": command}
    put(root / "compile_commands.json", json.dumps([entry]))
    flags = f"Compiler: '{root}/clang', BuiltinHeaders: QueryDriver"
    put(root / ".clangd", f"CompileFlags: {{{flags}}}\n")
