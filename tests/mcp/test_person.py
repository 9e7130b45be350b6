"""What an agent wants, without being asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

from vivace.desk.applying import Accepted
from vivace.desk.targets import read_target
from vivace.mcp.person import AtAgent
from vivace.syntax.hunk import Hunk
from vivace.workspace.paths import Workspace


def test_a_rename_that_concerns_files_outside_of_the_folder_is_not_wanted(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    workspace = Workspace(tmp_path)
    offered = []
    for name in ("inner/a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
        target = read_target(workspace.resolve(name))
        offered.append(Accepted(target, (Hunk(0, ("x = 1\n",), ("y = 1\n",)),)))
    person = AtAgent((tmp_path / "inner").resolve())
    assert asyncio.run(person.accepts(offered[:1])) == offered[:1]
    assert not any(each.hunks for each in asyncio.run(person.accepts(offered)))
    assert person.outside == "b.py"
