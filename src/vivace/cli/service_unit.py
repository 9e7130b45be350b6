"""The unit that ``vivace service`` writes: its text, and what has become of one.

Only hardening that needs no root and no namespaces stands in it: a user's systemd can rely on
nothing else. Memory stays writable and executable at once, as engines for GPUs compile at run time.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from vivace.errors import ConfigError

__all__ = ["NAME", "Unit", "unit_path"]

NAME = "vivace.service"

_TEXT = """\
# Written by: vivace service install {words}
# Version {version}. Run that again to change it; to add to it: systemctl --user edit vivace
[Unit]
Description=Vivace: vivace {description}
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=exec
WorkingDirectory={folder}
Environment={path}
EnvironmentFile=-%E/vivace/service.env
ExecStart={command}
Restart=on-failure
RestartSec=5
# Running answers finish first; engines are ended by the gateway, not beside it.
KillMode=mixed
TimeoutStopSec=90
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native

[Install]
WantedBy=default.target
"""
_HEAD = re.compile(
    r"# Written by: vivace service install (?P<words>.*)\n# Version (?P<version>[^ ]+)\. .*\n"
    r"(?:.*\n)*?WorkingDirectory=(?P<folder>.*)\n(?:.*\n)*?ExecStart=\"(?P<program>[^\"]*)\""
)


def unit_path() -> Path:
    root = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return root / "systemd/user" / NAME


class Unit(Struct, frozen=True):
    MARK: ClassVar[str] = "Written by: vivace service"

    program: tuple[str, ...]
    words: tuple[str, ...]
    folder: Path
    path: str
    """The PATH it runs with."""
    version: str
    """Of the Vivace that wrote it."""

    def text(self) -> str:
        return _TEXT.format(
            words=_line(shlex.join(self.words)),
            description=_literal(shlex.join(self.words)),
            version=self.version,
            folder=_literal(str(self.folder)),
            path=_quoted(f"PATH={self.path}"),
            command=" ".join(
                _quoted(word).replace("$", "$$") for word in self.program + self.words
            ),
        )

    @classmethod
    def read(cls, text: str) -> Unit | None:
        """What a unit says of itself; None if ours is not what it is."""
        found = _HEAD.match(text)
        if found is None:
            return None
        plain = (_plain(found["program"]),)
        folder = Path(found["folder"].replace("%%", "%"))
        return cls(plain, tuple(shlex.split(found["words"])), folder, "", found["version"])

    def problems(self, version: str) -> Iterator[tuple[str, str]]:
        """What keeps it from running, or from running this Vivace, and what to do about it."""
        again = f"Write it anew: vivace service install {shlex.join(self.words)}"
        if not Path(self.program[0]).is_file():
            yield f"{self.program[0]}, which it starts, is gone", again
        if not self.folder.is_dir():
            yield f"{self.folder}, in which it runs, is gone", again
        if self.version != version:
            yield f"Vivace {self.version} wrote it, and this is {version}", again


def _line(value: str) -> str:
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise ConfigError(f"A unit has no room for control characters, as in {value!r}.")
    return value


def _literal(value: str) -> str:
    return _line(value).replace("%", "%%")


def _quoted(value: str) -> str:
    escaped = _literal(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _plain(value: str) -> str:
    return value.replace("$$", "$").replace("%%", "%").replace("\\\\", "\\")
