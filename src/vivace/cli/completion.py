"""``vivace completion``: Tab completes commands, options and files, by click's own scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class
from msgspec import Struct

from vivace.cli import file_changes
from vivace.cli.file_changes import undo_all, write_all
from vivace.cli.output import put, say
from vivace.cli.places import data_root, shortened
from vivace.cli.settings_files import Edit, ShellLines, WholeFile

__all__ = ["SHELLS", "Shell", "completion"]

_MARK = "vivace completion"
_BASH_COMPLETION = (
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/share/bash-completion/bash_completion",
    "/etc/bash_completion",
)
"""Where the package of this name is; without it bash reads no completions by itself."""


class Shell(Struct, frozen=True):
    name: str
    edits: Callable[[str, Mapping[str, str]], tuple[Edit, ...]]
    """What to write so that it finds the script, by the script and the environment."""
    note: Callable[[Path], str]
    """What is left to do, by where the script was written."""

    def script(self) -> str:
        found = get_completion_class(self.name)
        assert found is not None
        made = ShellComplete.source(  # bash's own would start bash to learn its version
            found(click.Command("vivace"), {}, "vivace", "_VIVACE_COMPLETE")
        )
        return f"# Written by: {_MARK} {self.name}\n{made.strip()}\n"


def _folder(environment: Mapping[str, str], variable: str, default: str) -> Path:
    return Path(environment.get(variable) or default).expanduser()


def _bash(script: str, environment: Mapping[str, str]) -> tuple[Edit, ...]:
    data = _folder(environment, "XDG_DATA_HOME", "~/.local/share")
    folder = _folder(environment, "BASH_COMPLETION_USER_DIR", str(data / "bash-completion"))
    return (WholeFile(folder / "completions/vivace", script, _MARK),)


def _bash_note(path: Path) -> str:
    if any(Path(each).is_file() for each in _BASH_COMPLETION):
        return "It works in every new shell of bash 4.4 or newer."
    return (
        "bash reads this file by itself where the package bash-completion is installed, which was "
        f"not found here. Install it, or add this line to ~/.bashrc: source {shortened(path)}"
    )


def _zsh(script: str, environment: Mapping[str, str]) -> tuple[Edit, ...]:
    path = data_root() / "completion.zsh"
    start = _folder(environment, "ZDOTDIR", "~") / ".zshrc"
    ready = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"
    read = f'[[ ! -r "{path}" ]] || source "{path}"'
    return (WholeFile(path, script, _MARK), ShellLines(start, f"{ready}\n{read}\n"))


def _fish(script: str, environment: Mapping[str, str]) -> tuple[Edit, ...]:
    folder = _folder(environment, "XDG_CONFIG_HOME", "~/.config") / "fish/completions"
    return (WholeFile(folder / "vivace.fish", script, _MARK),)


def _in_new_shells(path: Path) -> str:
    return "It works in every new shell."


SHELLS = {
    each.name: each
    for each in (
        Shell("bash", _bash, _bash_note),
        Shell("zsh", _zsh, _in_new_shells),
        Shell("fish", _fish, _in_new_shells),
    )
}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@file_changes.write
@file_changes.undo
@file_changes.yes
def completion(shell: str, write: bool, undo: bool, yes: bool) -> None:
    """Have the Tab key complete commands, options and files.

    \b
        vivace completion bash --write       also: zsh, fish
        vivace completion bash --undo
        eval "$(vivace completion bash)"     in this shell only

    Without --write the script is printed. --write shows the change first, keeps a backup of what
    was there and can be undone with --undo.
    """
    if write and undo:
        raise click.UsageError("--write and --undo do not go together.")
    chosen = SHELLS[shell]
    script = chosen.script()
    edits = chosen.edits(script, os.environ)
    if undo:
        undo_all(edits, yes)
    elif not write:
        put(script)
    elif write_all(edits, yes):
        say(f"\n* {chosen.note(edits[0].path)}")
        say(f"* To undo: vivace completion {shell} --undo")
