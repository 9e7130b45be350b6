"""The whole way: an archive is brought, unpacked, edited and judged, without any registry."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.edit_sets.__main__ import main
from bench.edit_sets.errors import NoPackage
from bench.edit_sets.judge import judge
from bench.edit_sets.packages import bring
from bench.edit_sets.reader import read
from bench.edit_sets.running import tool
from bench.edit_sets.workspace import original

from tests.bench.edit_sets import made_up

Say = Callable[[], str]


@pytest.fixture(autouse=True)
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packages come from instead of a registry."""
    folder = tmp_path / "archives"
    folder.mkdir()
    monkeypatch.setenv("VIVACE_EDIT_ARCHIVES", str(folder))
    monkeypatch.setenv("VIVACE_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def python(archives: Path, tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(made_up.wheel(archives), "utf-8")
    return path


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    return lambda: "".join(capsys.readouterr())


def change(path: Path, old: str, new: str) -> Path:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return path


def test_a_good_set_passes_and_tells_how_it_is_mixed(python: Path, say: Say) -> None:
    assert main(["validate", str(python)]) == 0
    told = say()
    assert "2 tasks, 0 failed" in told
    assert "to be stopped          1 of 2" in told


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_good_set_in_c_passes(archives: Path, tmp_path: Path, say: Say) -> None:
    path = tmp_path / "box.toml"
    path.write_text(made_up.source(archives), "utf-8")
    assert main(["validate", str(path)]) == 0, say()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("price < 0:", "price < -9:", "reference: is judged wrong: not done"),
        ('tag = "damage"', 'tag = "wrong"', "wrong 2: tagged wrong, judged damage: not kept"),
        ('tag = "wrong"', 'tag = "damage"', "wrong 1: tagged damage, judged wrong: not done"),
        ("    Basket().add(-0.5)", "    raise ValueError", "passes with the untouched file"),
        ("basket.total() == 2", "basket.total() == 3", "check.kept: fails with the untouched"),
        ("Basket().add(3)", "Basket().add(-3)", "visible: fails with reference"),
        (" def add(self, price):", " def add(self):", "hunk 1 fits nowhere"),
        ("price < -1:", "price < 0:", "wrong 1: is the same edit as another"),
    ],
)
def test_a_task_that_cannot_tell_right_from_wrong_fails(
    python: Path, say: Say, old: str, new: str, told: str
) -> None:
    assert main(["validate", str(change(python, old, new))]) == 1
    assert told in say()


def test_other_right_answers_must_pass_too(python: Path, say: Say) -> None:
    other = "@@\\n     def add(self, price):\\n+        {}\\n         self.prices.append(price)\\n"
    refuses = other.format("if not price >= 0: raise ValueError(price)")
    nothing = other.format("# only what is not negative")
    change(python, "reference =", f'also_right = ["{refuses}"]\nreference =')
    assert main(["validate", str(python)]) == 0, say()
    change(python, f'["{refuses}"]', f'["{refuses}", "{nothing}"]')
    assert main(["validate", str(python)]) == 1
    assert "also_right 2: is judged wrong" in say()


def test_a_missing_compiler_is_named_with_what_to_install(
    archives: Path, tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "box.toml"
    path.write_text(made_up.source(archives), "utf-8")
    monkeypatch.setenv("PATH", str(tmp_path))
    tool.cache_clear()
    assert main(["validate", str(path)]) == 1
    assert "apt-get install gcc" in say()


def test_the_check_that_a_person_would_hand_over_can_be_run_alone(
    python: Path, tmp_path: Path, say: Say
) -> None:
    edited = tmp_path / "edited.py"
    edited.write_text(made_up.SHOP, "utf-8")
    visible = ["visible", str(python), "shop-no-negative", str(edited)]
    assert main(visible) == 0
    edited.write_text(made_up.SHOP.replace("append", "upend"), "utf-8")
    assert main(visible) == 1
    assert "AttributeError" in say()


def test_a_file_that_the_archive_lacks_is_named(python: Path, say: Say) -> None:
    assert main(["validate", str(change(python, "shop/basket.py", "shop/till.py"))]) == 2
    assert "the archive has no shop/till.py" in say()


def test_an_archive_with_another_hash_is_refused(python: Path, archives: Path) -> None:
    package = read(python).package
    (archives / package.archive).write_bytes(b"something else")
    with pytest.raises(NoPackage, match="sha256 is"):
        bring(package)


def test_a_request_that_nobody_understands_is_right_only_untouched(python: Path) -> None:
    edits = read(python)
    task = edits.tasks[1]
    text = original(edits.package, task)
    assert judge(edits.package, task, text).outcome == "right"
    assert judge(edits.package, task, text + "RATE = 2\n").outcome == "damage"


def test_a_file_that_no_longer_parses_is_damage(python: Path) -> None:
    edits = read(python)
    text = original(edits.package, edits.tasks[0])
    verdict = judge(edits.package, edits.tasks[0], text.replace("(price)\n", "(price\n", 1))
    assert verdict.outcome == "damage"


def test_the_untouched_file_is_wrong_and_harms_nothing(python: Path) -> None:
    edits = read(python)
    verdict = judge(edits.package, edits.tasks[0], original(edits.package, edits.tasks[0]))
    assert verdict.outcome == "wrong"


def test_a_sealed_set_opens_only_as_it_was_sealed(python: Path, tmp_path: Path, say: Say) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    shutil.copy(python, folder)
    sealed = [tmp_path / "one.sealed", tmp_path / "two.sealed"]
    for target in sealed:
        assert main(["seal", str(folder), str(target)]) == 0
    first, second = (line.split()[0] for line in say().splitlines())
    assert first == second
    assert b"negative" not in sealed[0].read_bytes()
    assert main(["open", str(sealed[0]), first, str(tmp_path / "opened")]) == 0
    assert (tmp_path / "opened" / "shop.toml").read_bytes() == python.read_bytes()
    assert main(["open", str(sealed[0]), "0" * 64, str(tmp_path / "other")]) == 2
    assert "not what was sealed" in say()
