"""Questions to git, asked so that the answer runs no program that the repository names.

A repository's own settings (``.git/config``, what that includes, the settings of a work tree) may
come from anybody: in an archive, on a shared disk, out of a CI cache. Settings of the person
(``~/.gitconfig``, the system's) are theirs: a filter such as git-lfs in there still runs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from vivace.workspace.errors import GitFailed
from vivace.workspace.paths import top_level

__all__ = ["git_environment", "run_git"]

_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",  # git 2.39.4 and newer: a fetch starts the remote's own programs
    "GIT_ALLOW_PROTOCOL": "none",  # older versions begin the fetch, and are refused every way
    "LC_ALL": "C",
}
_ALWAYS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "safe.bareRepository": "explicit",  # else any folder of a clone can pose as a repository
    "submodule.recurse": "false",  # submodules have settings of their own
}
_PROGRAM = re.compile(
    r"filter\..*\.(?:clean|smudge|process|required)"
    r"|diff\.(?:external|.*\.(?:command|textconv))|merge\..*\.driver"
    r"|core\.(?:askpass|editor|gitproxy|pager|sshcommand)|credential\.(?:.*\.)?helper"
    r"|gc\.recentobjectshook|gpg\..*program"
    # What the person's git-lfs asks git for:
    r"|lfs\.(?:customtransfer\..*\.path|(?:.*\.)?standalonetransferagent"
    r"|extension\..*\.(?:clean|smudge))",
    re.DOTALL,
)
"""Settings by which a repository could have git, or the person's git-lfs, run a program. git writes
the first and the last part of a name in lower case."""
_HOOK = re.compile(r"(hook\..*)\.(?:command|event)", re.DOTALL)
"""Hooks by settings (git 2.54), for which ``core.hooksPath`` means nothing."""
_FETCH_REFUSED = re.compile(r"lazy fetching disabled|transport '.*' not allowed")
_OWN_SCOPES = frozenset({"local", "worktree"})
_TIMEOUT_S = 60
_MAX_REMEMBERED = 64

_Signature = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True)
class _Remembered:
    signature: _Signature
    overrides: Mapping[str, str]


_remembered: dict[Path, _Remembered] = {}
"""Settings by folder, so that a question costs one process, not two."""


def run_git(
    folder: Path, *arguments: str, stdin: bytes = b"", accept: Collection[int] = (0,)
) -> bytes:
    """Return what git prints; raise GitFailed with its own words."""
    return _run(folder, arguments, git_environment(folder), stdin, accept)


def git_environment(folder: Path) -> dict[str, str]:
    """Return the environment in which git, and programs that start it, run no program that the
    repository around ``folder`` names. Raise GitFailed where its settings cannot be read."""
    real = Path(os.path.realpath(folder))
    tree = top_level(real)
    if tree is None:  # no repository, or one that the caller names by --git-dir
        return _environment(_ALWAYS)
    place, signature = _settings_of(tree)
    known = _remembered.get(place)
    if known is None or known.signature != signature:
        overrides, complete = _overrides(real)
        if len(_remembered) >= _MAX_REMEMBERED:
            _remembered.clear()
        # What is included is not in the signature, and could change unnoticed.
        known = _Remembered(signature if complete else (), overrides)
        _remembered[place] = known
    return _environment({**_ALWAYS, **known.overrides})


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    # A hook that calls us has its repository in the environment; ours is where the folder is.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Not by -c, where a "=" in a filter's name would end the name of the setting.
    own |= {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        own |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return own | _ENVIRONMENT


def _overrides(folder: Path) -> tuple[dict[str, str], bool]:
    """Return the settings that disarm those of the repository, and whether its own files say all of
    them, with nothing included."""
    arguments = ("config", "--list", "--show-scope", "-z")
    listed = [*_entries(_run(folder, arguments, _environment(_ALWAYS), b"", (0,)))]
    if ("command", "core.fsmonitor", "false") not in listed:
        raise GitFailed(
            "This git is too old to be told which settings of a repository it must not follow. "
            "Install git 2.31 or newer."
        )
    found: dict[str, str] = {}
    persons = {name: value for scope, name, value in listed if scope not in _OWN_SCOPES}
    for scope, name, _ in listed:
        if hook := _HOOK.fullmatch(name):
            found[f"{hook[1]}.enabled"] = "false"
        elif scope in _OWN_SCOPES and name.startswith("credential.") and _PROGRAM.fullmatch(name):
            found["credential.helper"] = ""  # takes back all helpers, of every address
        elif scope in _OWN_SCOPES and _PROGRAM.fullmatch(name):
            none = "false" if name.endswith(".required") else ""
            found[name] = persons.get(name, none)
    included = any(scope in _OWN_SCOPES and name.startswith("include") for scope, name, _ in listed)
    return found, not included


def _entries(listed: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield the scope, the name and the value of each setting."""
    parts = os.fsdecode(listed).split("\0")
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        name, _, value = entry.partition("\n")
        yield scope, name, value


def _settings_of(tree: Path) -> tuple[Path, _Signature]:
    """Return the folder of a work tree's own settings, and what changes when they do."""
    dot = tree / ".git"
    own = dot if dot.is_dir() else tree / _line(dot).removeprefix("gitdir: ").rstrip("\r")
    shared = own / (_line(own / "commondir") or ".")
    watched = (dot, own / "HEAD", shared / "config", own / "config.worktree")
    return own, tuple(map(_stat, watched))


def _line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return os.fsdecode(file.read(4096).partition(b"\n")[0])
    except (OSError, ValueError):
        return ""


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if path.name in (".git", "HEAD"):  # changes of what is in them say nothing of the settings
        return (found.st_dev, found.st_ino)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _run(
    folder: Path,
    arguments: Collection[str],
    environment: Mapping[str, str],
    stdin: bytes,
    accept: Collection[int],
) -> bytes:
    command, *_ = [each for each in arguments if not each.startswith("-")]
    try:
        ran = subprocess.run(  # noqa: S603 - no shell, and every path behind "--" or on stdin
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - the person's own git
            input=stdin,
            capture_output=True,
            env=environment,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise GitFailed(
            "git is not installed, and this work tree needs it. Install git."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise GitFailed(f"git {command} did not end within {_TIMEOUT_S} s.") from error
    except OSError as error:  # more settings than an environment has room for
        raise GitFailed(f"git {command} cannot be started in {folder}: {error.strerror}") from error
    if ran.returncode not in accept:
        raise GitFailed(f"git {command} failed in {folder}: {_why(ran.stderr, folder, arguments)}")
    return ran.stdout


def _why(stderr: bytes, folder: Path, arguments: Collection[str]) -> str:
    said = stderr.decode(errors="replace").strip()
    if _FETCH_REFUSED.search(said):
        again = shlex.join(["git", "-C", str(folder), *arguments])
        return (
            "objects are missing, as in a partial clone, and Vivace lets git fetch nothing, since "
            f"the repository names the program for it. Where you trust it, fetch them by: {again}"
        )
    return said.partition("\n")[0]
