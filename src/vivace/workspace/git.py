"""Questions to git, asked so that the answer runs nothing and changes nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from pathlib import Path

from vivace.workspace.errors import GitFailed

__all__ = ["run_git"]

_QUIET = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""Neither hooks nor a watcher that the repository names are started."""
_TIMEOUT_S = 60


def run_git(
    folder: Path, *arguments: str, stdin: bytes = b"", accept: Collection[int] = (0,)
) -> bytes:
    """What git says, or GitFailed with its own words."""
    # A hook that calls us has its repository in the environment; ours is where the folder is.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        ran = subprocess.run(  # noqa: S603 - no shell, and every path behind "--" or on stdin
            ["git", *_QUIET, "-C", str(folder), *arguments],  # noqa: S607 - the person's own git
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
        raise GitFailed(f"git {arguments[0]} did not end within {_TIMEOUT_S} s.") from error
    if ran.returncode not in accept:
        said = ran.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise GitFailed(f"git {arguments[0]} failed in {folder}: {said}")
    return ran.stdout
