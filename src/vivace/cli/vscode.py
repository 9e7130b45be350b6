"""Our extension in VS Code and the editors made from it: put there by the editor's own program.

The package comes with Vivace where it was built before Vivace was packaged (``scripts/extension``);
``vivace.vsix`` here is a link to it.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from vivace.cli.output import say
from vivace.errors import ConfigError

__all__ = [
    "PACKAGE",
    "PROGRAMS",
    "add_extension",
    "has_extension",
    "how_it_is_installed",
    "remove_extension",
]

PACKAGE = Path(__file__).with_name("vivace.vsix")

PROGRAMS = {
    "code": (".vscode", ".vscode-server"),
    "codium": (".vscode-oss", ".vscodium-server"),
    "cursor": (".cursor", ".cursor-server"),
    "code-server": (".local/share/code-server",),
}
"""What starts each of them, and where in the home folder it keeps extensions, here and for SSH."""

_NAME = "vivace.vivace"
_ALL = "all"
_NOT_BUILT = (
    "This Vivace came without its extension. Build it in a checkout of Vivace: scripts/extension. "
    "Then run this from that checkout, or: code --install-extension dist/vivace.vsix"
)
_PATIENCE_S = 120


def how_it_is_installed() -> str:
    programs = f"{', '.join(PROGRAMS)}, whichever is on PATH"
    missing = "" if PACKAGE.is_file() else f"\n{_NOT_BUILT}"
    return f"Our extension is installed by the editor's own program: {programs}.{missing}"


def has_extension(program: str, home: Path) -> bool:
    folders = (home / folder / "extensions" for folder in PROGRAMS[program])
    return any(path for folder in folders for path in folder.glob(f"{_NAME}-*"))


def add_extension(yes: bool) -> bool:
    """Whether it was installed; the person may not want it."""
    if not PACKAGE.is_file():
        raise ConfigError(_NOT_BUILT)
    programs = _chosen(_found(), yes)
    commands = [[program, "--install-extension", str(PACKAGE)] for program in programs]
    return _run(commands, yes)


def remove_extension(yes: bool) -> bool:
    programs = [each for each in _found() if has_extension(each, Path.home())]
    if not programs:
        say("There is nothing to undo.")
        return False
    return _run([[each, "--uninstall-extension", _NAME] for each in programs], yes)


def _found() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program)]


def _chosen(found: Sequence[str], yes: bool) -> Sequence[str]:
    if not found:
        raise ConfigError(
            f"None of {', '.join(PROGRAMS)} is on PATH. In VS Code, run Shell Command: Install "
            "'code' command in PATH from the command palette; or choose Install from VSIX… there "
            f"and take {PACKAGE}"
        )
    if len(found) == 1:
        return found
    if yes:
        raise ConfigError(
            f"There are {' and '.join(found)}, and nobody to ask which. Leave out --yes, or run: "
            f"{found[0]} --install-extension {shlex.quote(str(PACKAGE))}"
        )
    which = click.prompt("Into which?", type=click.Choice([*found, _ALL]), default=found[0])
    return found if which == _ALL else [which]


def _run(commands: Sequence[Sequence[str]], yes: bool) -> bool:
    for command in commands:
        say(f"  {shlex.join(command)}")
    if not (yes or click.confirm("Run this?")):
        say("Nothing was changed.")
        return False
    for command in commands:
        for line in _output(command):
            say(line)
    return True


def _output(command: Sequence[str]) -> Iterator[str]:
    program = shutil.which(command[0]) or command[0]
    try:
        ran = subprocess.run(  # noqa: S603 - a program that the person has seen and agreed to
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{command[0]} did not answer ({error}). {_BY_HAND}") from None
    if ran.returncode != 0:
        raise ConfigError(f"{command[0]} refused:\n{ran.stdout.strip()}\n{_BY_HAND}")
    yield from ran.stdout.splitlines()


_BY_HAND = f"By hand: its command palette, Extensions: Install from VSIX…, {PACKAGE}"
