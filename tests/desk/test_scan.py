"""Files looked through in several processes: all of them, whatever one does to its process."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.rules import RULES, SHELL, YAML, write
from vivace.desk import scan as subject
from vivace.desk.rules import Choice, RuleText, rule_set
from vivace.desk.scan import Scanned, scan_file, scan_files, why_not_scanned
from vivace.workspace.paths import SafePath

CHOICE = Choice(named=(RuleText("rules.yml", RULES),), bundled=False)


def scanned(root: Path, jobs: int = 1) -> dict[str, Scanned]:
    files = [SafePath(root, path.relative_to(root).parts) for path in sorted(root.rglob("*.py"))]
    found = list(scan_files(files, root, CHOICE, jobs))
    assert len(found) == len(files)
    return {each.path: each for each in found}


def codes(each: Scanned) -> list[str]:
    return [located.finding.code for located in each.found]


def one(root: Path, data: bytes, name: str = "a.py") -> Scanned:
    (root / name).write_bytes(data)
    return scan_file(SafePath(root, (name,)), root, rule_set(CHOICE))


@pytest.fixture
def tiny_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_PORTION", 10)


def test_a_file_has_its_findings_with_their_place(tmp_path: Path) -> None:
    write(tmp_path, p__a=SHELL)
    found = scanned(tmp_path)["p/a.py"]
    (shell,) = found.found
    assert (found.lines, found.skipped) == (5, None)
    assert (shell.path, shell.line) == ("p/a.py", "    os.system('ls ' + name)")
    assert shell.finding.lines == (4, 5)
    assert "A shell reads 'ls ' + name." in shell.finding.person


@pytest.mark.usefixtures("tiny_portions")
def test_many_processes_find_what_one_finds(tmp_path: Path) -> None:
    write(tmp_path, **{f"p{number}__a": SHELL * (number % 5) + YAML for number in range(12)})
    assert scanned(tmp_path, jobs=3) == scanned(tmp_path, jobs=1)


@pytest.mark.usefixtures("tiny_portions")
def test_processes_that_begin_anew_know_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threading.active_count", lambda: 2)
    write(tmp_path, a=SHELL, b=YAML)
    found = scanned(tmp_path, jobs=2)
    assert [codes(found["a.py"]), codes(found["b.py"])] == [["test-shell"], ["test-yaml"]]


def deadly_work(portion: Sequence[SafePath], base: Path, choice: Choice) -> list[Scanned]:
    """Found by its name in a process that begins anew, too, where no patch of this one reaches."""
    if any(path.name == "deadly.py" for path in portion):
        os._exit(11)
    return real_work(portion, base, choice)


real_work = subject._work


@pytest.mark.usefixtures("tiny_portions")
@pytest.mark.parametrize("threads", [None, 2], ids=["as it is", "begun anew"])
def test_a_file_that_ends_its_process_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int | None
) -> None:
    if threads is not None:
        monkeypatch.setattr("threading.active_count", lambda: threads)
    monkeypatch.setattr(subject, "_work", deadly_work)
    write(tmp_path, deadly="x = 1\n", **{f"f{number}": SHELL for number in range(6)})
    found = scanned(tmp_path, jobs=2)
    assert "died" in (found.pop("deadly.py").skipped or "")
    assert [codes(each) for each in found.values()] == [["test-shell"]] * 6


def test_a_fault_of_ours_in_one_file_is_told_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: object) -> None:
        raise IndexError("os.system(secret)")

    monkeypatch.setattr(subject, "scan", faulty)
    said = one(tmp_path, SHELL.encode()).skipped or ""
    assert "IndexError at " in said
    assert "report" in said
    assert "secret" not in said


def test_who_stops_listening_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "_PORTION", 10)
    write(tmp_path, **{f"f{number}": SHELL for number in range(6)})
    files = [SafePath(tmp_path, (path.name,)) for path in tmp_path.glob("*.py")]
    left = scan_files(files, tmp_path, CHOICE, 2)
    next(left)
    assert multiprocessing.active_children()
    left.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_windows_line_ends_and_marks_do_not_move_the_place(tmp_path: Path) -> None:
    plain = one(tmp_path, SHELL.encode())
    windows = one(tmp_path, b"\xef\xbb\xbf" + SHELL.replace("\n", "\r\n").encode())
    assert windows == plain


def test_a_byte_that_is_no_character_hides_nothing(tmp_path: Path) -> None:
    latin = one(tmp_path, b"# caf\xe9\n" + SHELL.encode())
    assert codes(latin) == ["test-shell"]
    assert latin.found[0].finding.lines == (5, 6)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\0" * 90, "not text"),
        ("x = 1\n".encode("utf-16"), "not text"),
        (b"x = '" + b"a" * 30_000 + b"'\n", "a line of 30,007 characters"),
        (b"x = 1\n" * 200_000, "it has 1.1 MB"),
        (b"[" * 2_000, "nest too deep"),
    ],
)
def test_what_cannot_be_looked_at_is_told(tmp_path: Path, data: bytes, why: str) -> None:
    assert why in (one(tmp_path, data).skipped or "")


def test_what_is_gone_or_became_a_link_is_told(tmp_path: Path) -> None:
    write(tmp_path, a=SHELL)
    (tmp_path / "link.py").symlink_to(tmp_path / "a.py")
    for name in ("gone.py", "link.py"):
        path = SafePath(tmp_path, (name,))
        assert scan_file(path, tmp_path, rule_set(CHOICE)).skipped is not None


@pytest.mark.parametrize(
    ("parts", "why"), [((".env.py",), "secrets"), (("a.txt",), "language"), (("a.py",), None)]
)
def test_names_decide_what_is_opened(parts: Sequence[str], why: str | None) -> None:
    said = why_not_scanned(SafePath(Path("/"), tuple(parts)))
    assert said is None if why is None else why in (said or "")


def test_a_secret_in_a_file_is_no_reason_not_to_look(tmp_path: Path) -> None:
    key = b"-----BEGIN PRIVATE KEY-----\n"
    assert codes(one(tmp_path, b"'''" + key + b"'''\n" + SHELL.encode())) == ["test-shell"]
