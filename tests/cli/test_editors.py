"""``vivace connect`` for editors: what each is told, and that it needs no server for that."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from vivace.cli.connect import connect
from vivace.cli.editors import EDITORS

URL = "http://127.0.0.1:1/v1"


def told(home: Path, *arguments: str) -> str:
    environment = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)}
    runner = CliRunner(env=environment | {"NVIM_APPNAME": None})
    done = runner.invoke(connect, [*arguments, "--url", URL])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("editor", EDITORS)
def test_an_editor_is_told_of_a_server_that_does_not_run_yet(editor: str, tmp_path: Path) -> None:
    shown = told(tmp_path, editor)
    assert URL in shown
    assert "2026-11-16" in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("editor", EDITORS)
def test_a_key_is_named_and_never_asked_for(editor: str, tmp_path: Path) -> None:
    shown = told(tmp_path, editor, "--key-env", "MY_KEY")
    assert any(name in shown for name in ("MY_KEY", "VIVACE_KEY", "Set the Server's Key"))


@pytest.mark.parametrize("editor", ["neovim", "emacs", "helix"])
def test_what_is_written_is_taken_back(editor: str, tmp_path: Path) -> None:
    told(tmp_path, editor, "--write", "--yes")
    assert [path for path in tmp_path.rglob("*") if path.is_file()]
    told(tmp_path, editor, "--undo", "--yes")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_helix_gets_a_language_server_beside_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "helix/languages.toml"
    path.parent.mkdir()
    path.write_text('[[language]]\nname = "rust"\n')
    told(tmp_path, "helix", "--write", "--yes")
    settings = tomllib.loads(path.read_text())
    assert settings["language"] == [{"name": "rust"}]
    assert settings["language-server"]["vivace"]["args"] == ["lsp", "--url", URL]
    assert "Ctrl-x" in told(tmp_path, "helix")


def test_emacs_keeps_to_the_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "emacs").mkdir()
    told(tmp_path, "emacs", "--write", "--yes")
    assert (tmp_path / "emacs/vivace.el").exists()


def test_vs_code_is_told_its_settings(tmp_path: Path) -> None:
    shown = told(tmp_path, "vscode")
    settings = json.loads(shown[shown.index("{") : shown.index("}") + 1])
    assert settings["vivace.address"] == URL
