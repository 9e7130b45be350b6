"""scripts/reference: what it writes is up to date, and what is not is named with its remedy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import reference


@pytest.mark.parametrize("name", reference.REFERENCES)
def test_a_reference_is_what_the_code_says(name: str) -> None:
    written = (reference.ROOT / name).read_text("utf-8")
    assert written == reference.REFERENCES[name](), "run scripts/reference"


def test_everything_in_the_folder_is_written_by_the_script() -> None:
    found = (reference.ROOT / "docs" / "reference").iterdir()
    names = {str(path.relative_to(reference.ROOT)) for path in found}
    assert names == {name for name in reference.REFERENCES if name.startswith("docs/reference/")}


@pytest.mark.parametrize("name", [name for name in reference.REFERENCES if name.endswith(".md")])
def test_a_link_leads_to_a_file_and_a_heading(name: str) -> None:
    here = reference.ROOT / name
    for link in re.findall(r"\]\(([^)]+)\)", here.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        there = here.parent / path if path else here
        assert there.is_file(), link
        if anchor:
            headings = re.findall(r"(?m)^#+ (.+)$", there.read_text("utf-8"))
            assert anchor in {
                re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings
            }


def test_what_was_changed_by_hand_is_named_and_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "REFERENCES", {"pages/one.md": lambda: "right\n"})
    assert reference.main([], tmp_path) == 0
    assert reference.main(["--check"], tmp_path) == 0
    (tmp_path / "pages" / "one.md").write_text("by hand\n")
    assert reference.main(["--check"], tmp_path) == 1
    said = capsys.readouterr().err
    assert said == "pages/one.md is not what the code says: run scripts/reference\n"
    assert (tmp_path / "pages" / "one.md").read_text() == "by hand\n"
    assert reference.main([], tmp_path) == 0
    assert (tmp_path / "pages" / "one.md").read_text() == "right\n"


def test_an_option_that_there_is_not_changes_nothing(tmp_path: Path) -> None:
    assert reference.main(["--chekc"], tmp_path) == 2
    assert not list(tmp_path.iterdir())
