"""What a program of a task said is told without where it was run."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.edit_sets.running import execute


def test_a_trace_does_not_tell_where_helpers_and_files_are(tmp_path: Path) -> None:
    helpers, work = tmp_path / "helpers", tmp_path / "work"
    for folder in (helpers, work):
        folder.mkdir()
    (work / "checked.py").write_text("raise ValueError('not kept')\n")
    helper = helpers / "helper.py"
    helper.write_text("import runpy, sys\nrunpy.run_path(sys.argv[1])\n")
    said = execute([sys.executable, helper, work / "checked.py"], work, seconds=10)
    assert said is not None
    assert "ValueError: not kept" in said
    assert 'File "helper.py", line 2' in said
    assert str(tmp_path) not in said


def test_what_ends_well_says_nothing(tmp_path: Path) -> None:
    assert execute([sys.executable, "-c", "print('fine')"], tmp_path, seconds=10) is None
