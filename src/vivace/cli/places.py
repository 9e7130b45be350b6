"""Where the command line keeps things, by the custom of each system."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["data_root", "shortened", "state_root"]


def _root(variable: str, default: str) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local")).expanduser() / "vivace"
    return Path(os.environ.get(variable) or default).expanduser() / "vivace"


def shortened(path: Path) -> str:
    """For reading: the home folder as ~."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def data_root() -> Path:
    """What should last: stored turns."""
    return _root("XDG_DATA_HOME", "~/.local/share")


def state_root() -> Path:
    """What is convenient to remember: the last answer."""
    return _root("XDG_STATE_HOME", "~/.local/state")
