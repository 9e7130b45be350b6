"""``.editorconfig``: what the files of a folder say of a file, read by the library of that name.

The library trusts what it reads. These files may come from anybody: a glob of many stars would keep
it busy for minutes and an odd one raises, so such a section is about nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

from editorconfig.exceptions import EditorConfigError
from editorconfig.ini import EditorConfigParser

__all__ = ["settings_in"]

_LONGEST = 200
_STARS = 8


def settings_in(file: Path, about: Path) -> tuple[dict[str, str], bool]:
    """The settings of an ``.editorconfig`` for a file, and whether no folder above has a say."""
    parser = _Careful(about.as_posix())
    try:
        parser.read(str(file))
    except (EditorConfigError, ValueError):
        return {}, False
    settings = {name: value.lower() for name, value in parser.options.items()}
    return settings, parser.root_file


class _Careful(EditorConfigParser):
    def matches_filename(self, config_filename: str, glob: str) -> bool:
        if len(glob) > _LONGEST or glob.count("*") > _STARS:
            return False
        try:
            return bool(super().matches_filename(config_filename, glob))
        except re.error:
            return False
