"""Edits of many files as one, and back again, whatever happens in between."""

from __future__ import annotations

import random
import signal
import stat
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.workspace.ten_files import NAMES, text_of
from vivace.workspace import journal as journal_module
from vivace.workspace.document import read
from vivace.workspace.errors import CannotUndo, CannotWrite, FileChanged
from vivace.workspace.journal import Change, Entry, Journal
from vivace.workspace.paths import Workspace

PROJECT = Path(__file__).parents[2]


def change(workspace: Workspace, name: str, after: bytes | None) -> Change:
    path = workspace.resolve(name)
    version = read(path).version if path.absolute.exists() else None
    return Change(path, version, after)


def apply(
    workspace: Workspace, journal: Journal, title: str = "an edit", **files: bytes | None
) -> Entry | None:
    """``a_py=b"..."`` for the file ``a.py``; two underscores are a folder."""
    named = {key.replace("__", "/").replace("_", "."): data for key, data in files.items()}
    return journal.apply([change(workspace, name, data) for name, data in named.items()], title)


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


# -- doing ----------------------------------------------------------------------------------------


def test_several_files_are_changed_made_and_removed_as_one(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    (root / "a.py").write_bytes(b"a")
    (root / "b.py").write_bytes(b"b")
    entry = apply(workspace, journal, a_py=b"A", b_py=None, new__sub__c_py=b"C")
    assert contents(root) == {"a.py": b"A", "new/sub/c.py": b"C"}
    assert entry is not None
    assert entry.paths == ("a.py", "b.py", "new/sub/c.py")
    assert not entry.interrupted


def test_if_one_file_cannot_be_changed_none_is(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    (root / "a.py").write_bytes(b"a")
    (root / "b.py").write_bytes(b"b")
    (root / "b.py").chmod(0o444)
    with pytest.raises(CannotWrite, match=r"b\.py"):
        apply(workspace, journal, a_py=b"A", new__c_py=b"C", b_py=b"B")
    assert contents(root) == {"a.py": b"a", "b.py": b"b"}
    assert not (root / "new").exists()
    assert journal.entries() == []


@pytest.mark.parametrize("error", [FileChanged("b.py was changed."), KeyboardInterrupt()])
def test_what_fails_half_way_is_taken_back(
    workspace: Workspace,
    journal: Journal,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    (root / "a.py").write_bytes(b"a")
    (root / "a.py").chmod(0o640)
    (root / "gone.py").write_bytes(b"g")
    (root / "gone.py").chmod(0o755)
    (root / "b.py").write_bytes(b"b")
    carry_out = journal_module._carry_out

    def fail_at_b(change: Change, file: journal_module._File) -> None:
        if str(change.path) == "b.py":
            raise error
        carry_out(change, file)

    monkeypatch.setattr(journal_module, "_carry_out", fail_at_b)
    with pytest.raises(type(error)):
        apply(workspace, journal, a_py=b"A", gone_py=None, new__c_py=b"C", b_py=b"B")
    assert contents(root) == {"a.py": b"a", "gone.py": b"g", "b.py": b"b"}
    assert stat.S_IMODE((root / "a.py").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "gone.py").stat().st_mode) == 0o755
    assert not (root / "new").exists()
    assert journal.entries() == []


def test_nothing_to_change_is_no_edit(workspace: Workspace, journal: Journal, root: Path) -> None:
    (root / "a.py").write_bytes(b"a")
    assert apply(workspace, journal, a_py=b"a") is None
    assert journal.last() is None


def test_the_same_file_twice_is_refused(workspace: Workspace, journal: Journal, root: Path) -> None:
    (root / "a.py").write_bytes(b"a")
    twice = [change(workspace, "a.py", b"A"), change(workspace, "./a.py", b"B")]
    with pytest.raises(CannotWrite, match="twice"):
        journal.apply(twice, "an edit")
    assert contents(root) == {"a.py": b"a"}


# -- and back -------------------------------------------------------------------------------------


def test_an_edit_is_taken_back_with_its_permissions_and_folders(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    (root / "a.py").write_bytes(b"a")
    (root / "b.sh").write_bytes(b"b")
    (root / "b.sh").chmod(0o755)
    apply(workspace, journal, a_py=b"A", b_sh=None, new__sub__c_py=b"C")
    journal.undo()
    assert contents(root) == {"a.py": b"a", "b.sh": b"b"}
    assert stat.S_IMODE((root / "b.sh").stat().st_mode) == 0o755
    assert not (root / "new").exists()
    assert journal.last() is None


def test_several_edits_are_taken_back_as_one(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    for text in (b"1", b"2", b"3", b"4"):
        apply(workspace, journal, text.decode(), a_py=text)
    (restored,) = journal.undo(steps=2)
    assert (restored.now, restored.then, restored.changed) == (b"4", b"2", False)
    assert contents(root) == {"a.py": b"2"}
    assert [entry.title for entry in journal.entries()] == ["2", "1"]
    journal.undo(steps=2)
    assert contents(root) == {}


def test_more_than_there_is_is_not_taken_back(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    with pytest.raises(CannotUndo, match="no edit"):
        journal.undo()
    apply(workspace, journal, a_py=b"1")
    with pytest.raises(CannotUndo, match="only 1"):
        journal.undo(steps=2)
    assert contents(root) == {"a.py": b"1"}


def test_what_was_changed_since_is_not_lost_unless_the_person_says_so(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    (root / "a.py").write_bytes(b"a")
    apply(workspace, journal, a_py=b"A", b_py=b"B")
    (root / "a.py").write_bytes(b"typed by hand")
    with pytest.raises(CannotUndo, match=r"a\.py.*--force") as refused:
        journal.undo()
    assert refused.value.paths == ("a.py",)
    assert contents(root) == {"a.py": b"typed by hand", "b.py": b"B"}
    journal.undo(force=True)
    assert contents(root) == {"a.py": b"a"}
    journal.redo()
    assert contents(root) == {"a.py": b"typed by hand", "b.py": b"B"}


def test_what_was_changed_between_two_edits_is_not_lost_either(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    apply(workspace, journal, a_py=b"1")
    (root / "a.py").write_bytes(b"typed by hand")
    apply(workspace, journal, a_py=b"2")
    with pytest.raises(CannotUndo):
        journal.undo(steps=2)
    journal.undo()
    assert contents(root) == {"a.py": b"typed by hand"}


def test_an_undo_is_taken_back_until_there_is_another_edit(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    for text in (b"1", b"2"):
        apply(workspace, journal, a_py=text)
    journal.undo()
    journal.undo()
    journal.redo()
    assert contents(root) == {"a.py": b"1"}
    journal.redo()
    assert contents(root) == {"a.py": b"2"}
    with pytest.raises(CannotUndo):
        journal.redo()
    journal.undo()
    apply(workspace, journal, a_py=b"3")
    with pytest.raises(CannotUndo):
        journal.redo()


def test_a_preview_touches_nothing(workspace: Workspace, journal: Journal, root: Path) -> None:
    apply(workspace, journal, a_py=b"1")
    (shown,) = journal.preview()
    assert (shown.path, shown.now, shown.then) == ("a.py", b"1", None)
    assert contents(root) == {"a.py": b"1"}


# -- where it is kept -----------------------------------------------------------------------------


def test_the_journal_is_outside_of_the_work_tree_and_for_its_owner_only(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    apply(workspace, journal, a_py=b"1")
    assert not journal.folder.is_relative_to(root)
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in journal.folder.iterdir()} == {0o600}


def test_each_workspace_has_its_own(tmp_path: Path, state: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    one, two = (Journal(Workspace(folder), state) for folder in folders)
    apply(Workspace(folders[0]), one, a_py=b"1")
    assert two.last() is None
    assert one.last() is not None


def test_entries_say_what_and_when(workspace: Workspace, state: Path) -> None:
    noon = datetime(2030, 1, 2, 12, tzinfo=UTC)
    journal = Journal(workspace, state, now=lambda: noon)
    apply(workspace, journal, "rename x to y", a_py=b"1")
    assert journal.entries() == [Entry(1, noon, "rename x to y", ("a.py",), interrupted=False)]


def test_the_oldest_edits_are_forgotten(
    workspace: Workspace, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_MOST_EDITS", 3)
    for number in range(5):
        apply(workspace, journal, str(number), a_py=str(number).encode())
    assert [entry.title for entry in journal.entries()] == ["4", "3", "2"]


def test_large_edits_are_forgotten_sooner_but_never_the_last(
    workspace: Workspace, journal: Journal, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.setattr(journal_module, "_MOST_BYTES", 1000)
    for number in range(3):
        apply(workspace, journal, str(number), a_py=str(number).encode() * 2000)
    assert [entry.title for entry in journal.entries()] == ["2"]
    journal.undo()
    assert contents(root) == {"a.py": b"1" * 2000}


def test_a_record_that_cannot_be_read_is_named(workspace: Workspace, journal: Journal) -> None:
    apply(workspace, journal, a_py=b"1")
    (journal.folder / "00000001.done").write_bytes(b"\xc1")
    with pytest.raises(CannotUndo, match=r"00000001\.done"):
        journal.entries()


def test_a_second_program_waits_and_then_says_so(
    workspace: Workspace, journal: Journal, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_PATIENCE_S", 0.1)
    with journal._opened(), pytest.raises(CannotWrite, match="another vivace"):
        Journal(workspace, state).entries()


# -- killed ---------------------------------------------------------------------------------------


@pytest.fixture
def ten(root: Path) -> Path:
    for name in NAMES:
        (root / name).parent.mkdir()
        (root / name).write_bytes(text_of(name, 0))
    return root


def ten_files(root: Path, state: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.workspace.ten_files", str(root), str(state), *more]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE)


def versions(root: Path) -> list[int]:
    """Which edit each file is of, wholly."""
    found = []
    for name in NAMES:
        data = (root / name).read_bytes()
        version = int(data.split(b"\n")[0].split()[-1])
        assert data == text_of(name, version)
        found.append(version)
    return found


def begin_again(root: Path, state: Path) -> None:
    for path in state.rglob("*.*"):
        path.unlink()
    for name in NAMES:
        (root / name).write_bytes(text_of(name, 0))


def check_after_the_kill(root: Path, state: Path) -> bool:
    """Every file is old or new, nothing is left behind and undo restores; tells if it was half."""
    found = versions(root)
    old, new = min(found), max(found)
    assert new - old <= 1
    journal = Journal(Workspace(root), state)
    last = journal.last()
    assert sorted(contents(root)) == sorted(NAMES)
    if last is None:
        assert new == 0
        return False
    assert last.title == f"edit {new}"
    assert last.interrupted == (old != new)
    journal.undo()
    assert versions(root) == [new - 1] * len(NAMES)
    assert sorted(contents(root)) == sorted(NAMES)
    return old != new


@pytest.mark.release  # the next tests kill it before each call of the system
def test_killed_at_random_every_file_is_old_or_new_and_undo_restores(
    ten: Path, state: Path
) -> None:
    for _ in range(30):
        program = ten_files(ten, state)
        assert program.stdout is not None
        program.stdout.read(1)
        time.sleep(random.uniform(0, 0.03))
        program.send_signal(signal.SIGKILL)
        program.communicate()
        check_after_the_kill(ten, state)
        begin_again(ten, state)


def test_killed_before_any_call_of_the_system_every_file_is_old_or_new_and_undo_restores(
    ten: Path, state: Path
) -> None:
    half, call = 0, 1
    while True:
        program = ten_files(ten, state, "edit", str(call))
        program.communicate()
        if program.returncode == 0:
            break
        assert program.returncode == -signal.SIGKILL
        half += check_after_the_kill(ten, state)
        begin_again(ten, state)
        call += random.randint(1, 4)  # not each of them each time: they are many
    assert versions(ten) == [1] * len(NAMES)
    assert call > 50
    assert half > 3


def test_an_undo_that_was_killed_is_finished_by_another(
    ten: Path, workspace: Workspace, state: Path
) -> None:
    half, call = 0, 1
    while True:
        journal = Journal(workspace, state)
        journal.apply([change(workspace, name, text_of(name, 1)) for name in NAMES], "edit 1")
        program = ten_files(ten, state, "undo", str(call))
        program.communicate()
        if program.returncode == 0:
            break
        found = versions(ten)
        if journal.last() is not None:
            journal.undo()
        else:
            assert found == [0] * len(NAMES)
        assert versions(ten) == [0] * len(NAMES)
        assert sorted(contents(ten)) == sorted(NAMES)
        half += 0 < sum(found) < len(NAMES)
        begin_again(ten, state)
        call += random.randint(3, 8)
    assert half > 1


# -- any sequence of all this ---------------------------------------------------------------------


class Editing(RuleBasedStateMachine):
    """The journal against a list of what the files were."""

    names = ("a.py", "b.py", "sub/c.py")

    @initialize()
    def begin(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.root = Path(self._folder.name) / "project"
        self.root.mkdir()
        self.workspace = Workspace(self.root)
        self.journal = Journal(self.workspace, Path(self._folder.name) / "state")
        self.past: list[dict[str, bytes]] = [{}]

    def teardown(self) -> None:
        self._folder.cleanup()

    @rule(
        files=st.dictionaries(
            st.sampled_from(names), st.none() | st.sampled_from([b"1", b"2", b"3"]), min_size=1
        )
    )
    def edit(self, files: dict[str, bytes | None]) -> None:
        before = self.past[-1]
        after = {name: data for name, data in (before | files).items() if data is not None}
        applied = self.journal.apply(
            [change(self.workspace, name, data) for name, data in files.items()], "an edit"
        )
        assert (applied is None) == (before == after)
        if applied is not None:
            self.past.append(after)

    @precondition(lambda self: len(self.past) > 1)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        steps = data.draw(st.integers(1, len(self.past) - 1))
        self.journal.undo(steps)
        undone = self.past[-steps:]
        del self.past[-steps:]
        if data.draw(st.booleans()):
            self.journal.redo()
            self.past += undone

    @invariant()
    def the_files_are_as_they_should_be(self) -> None:
        assert contents(self.root) == self.past[-1]
        assert len(self.journal.entries()) == len(self.past) - 1


Editing.TestCase.settings = settings(
    max_examples=25, stateful_step_count=12, suppress_health_check=list(HealthCheck)
)
TestEditing = Editing.TestCase
