"""Accepted hunks on disk: together, on top of what is there now, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from vivace.desk.applying import Accepted, EditConflict, try_to_write, write_all
from vivace.desk.targets import Target, open_target
from vivace.syntax.hunk import Hunk
from vivace.workspace.errors import CannotWrite, FileChanged
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

TEXT = "".join(f"{number}\n" for number in range(10))
HUNK = Hunk(4, ("4\n",), ("four\n",))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    (tmp_path / "project").mkdir()
    return Journal(Workspace(tmp_path / "project"), tmp_path / "state")


@pytest.fixture
def targets(tmp_path: Path, journal: Journal) -> list[Target]:
    paths = [tmp_path / "project" / name for name in ("a.txt", "b.txt")]
    for path in paths:
        path.write_text(TEXT)
    return [open_target(Workspace(tmp_path / "project"), str(path)) for path in paths]


def test_all_files_are_one_entry(journal: Journal, targets: list[Target]) -> None:
    written = write_all(journal, [Accepted(each, (HUNK,)) for each in targets], "a title")
    assert [(each.path, each.added, each.removed) for each in written] == [
        ("a.txt", 1, 1),
        ("b.txt", 1, 1),
    ]
    assert [(entry.title, entry.paths) for entry in journal.entries()] == [
        ("a title", ("a.txt", "b.txt"))
    ]


def test_what_was_typed_meanwhile_stays(journal: Journal, targets: list[Target]) -> None:
    path = targets[0].path.absolute
    path.write_text("new\n" + TEXT)
    written = write_all(journal, [Accepted(targets[0], (HUNK,))], "a title")
    assert path.read_text() == "new\n" + TEXT.replace("4", "four")
    assert written[0].rebased


def test_a_conflict_in_one_file_keeps_all_as_they_are(
    journal: Journal, targets: list[Target]
) -> None:
    targets[1].path.absolute.write_text(TEXT.replace("4", "vier"))
    with pytest.raises(EditConflict, match=r"(?s)b\.txt.*\+four.*\+vier"):
        write_all(journal, [Accepted(each, (HUNK,)) for each in targets], "a title")
    assert targets[0].path.absolute.read_text() == TEXT
    assert journal.entries() == []


def test_a_change_in_the_very_last_moment_is_taken_up(
    journal: Journal, targets: list[Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = journal.apply
    path = targets[0].path.absolute

    def late(*arguments: object) -> object:
        monkeypatch.setattr(journal, "apply", apply)
        path.write_text(TEXT + "10\n")
        raise FileChanged("It was changed.")

    monkeypatch.setattr(journal, "apply", late)
    write_all(journal, [Accepted(targets[0], (HUNK,))], "a title")
    assert path.read_text() == TEXT.replace("4", "four") + "10\n"


def test_what_cannot_be_written_raises_and_writes_nothing(
    journal: Journal, targets: list[Target]
) -> None:
    targets[1].path.absolute.chmod(0o444)
    with pytest.raises(CannotWrite):
        write_all(journal, [Accepted(each, (HUNK,)) for each in targets], "a title")
    assert targets[0].path.absolute.read_text() == TEXT


def test_whether_a_file_can_be_written_is_told_without_writing(targets: list[Target]) -> None:
    path = targets[0].path.absolute
    try_to_write(Accepted(targets[0], (HUNK,)))
    path.chmod(0o444)
    with pytest.raises(CannotWrite, match="read-only"):
        try_to_write(Accepted(targets[0], (HUNK,)))
    path.chmod(0o644)
    path.write_text("new\n" + TEXT)
    try_to_write(Accepted(targets[0], (HUNK,)))  # that it was changed is no matter
    assert path.read_text() == "new\n" + TEXT
    assert {each.name for each in path.parent.iterdir()} == {"a.txt", "b.txt"}
