"""Which rules are looked for, where they come from, and what is refused before anything is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.rules import RULES
from vivace.desk.rules import Choice, RuleText, choose, origins, rule_set, rules_for
from vivace.errors import RuleError
from vivace.findings.bundled import bundled

MINE = RULES.replace("test-", "mine-")


def ids(choice: Choice) -> set[str]:
    return {rule.id for rule in rule_set(choice).for_language("python")}


def ours() -> set[str]:
    return {rule.id for rule in bundled().for_language("python")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "vivace-rules").mkdir(parents=True)
    (folder / "vivace-rules" / "own.yml").write_text(RULES)
    return folder


def test_a_projects_own_rules_join_those_that_come_with_vivace(root: Path) -> None:
    choice = choose(root, [], root)
    assert ids(choice) == ours() | {"test-shell", "test-yaml", "test-nan"}
    assert origins(choice, ["python"]) == f"{len(ours())} bundled, 3 of vivace-rules/own.yml"
    assert origins(choice, ["go"]).endswith("0 of vivace-rules/own.yml")


def test_a_file_and_a_folder_of_rules_may_be_named(tmp_path: Path, root: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "secrets.yaml").write_text(MINE)  # a name that other files are kept for
    (tmp_path / "more" / "readme.md").write_text("Rules.")
    choice = choose(root, [tmp_path / "more"], root, ours=False)
    assert ids(choice) == {f"{of}-{what}" for of in ("test", "mine") for what in SMALL}
    assert "bundled" not in origins(choice, ["python"])
    assert ids(choose(root, [Path("../more/secrets.yaml")], root, ours=False)) == ids(choice)


SMALL = ("shell", "yaml", "nan")


def test_rules_and_kinds_can_be_left_out(root: Path) -> None:
    choice = choose(root, [], root, without=["test-shell", "bug"], ours=False)
    assert ids(choice) == {"test-yaml"}
    assert set(rules_for(choice, ["python", "go"])) == {"test-yaml"}


def test_a_misspelt_rule_is_answered_with_the_nearest(root: Path) -> None:
    with pytest.raises(RuleError, match=r"no rule 'test-shel' .* 'test-shell'"):
        choose(root, [], root, without=["test-shel"])


def test_a_wrong_rule_stops_with_its_file_and_line(root: Path) -> None:
    (root / "vivace-rules" / "own.yml").write_text("id: x\nlanguage: python\nmessage: x\nruel: x\n")
    with pytest.raises(RuleError, match=r"vivace-rules/own\.yml, line 4"):
        choose(root, [], root)


def test_two_rules_of_one_name_are_refused(root: Path) -> None:
    (root / "vivace-rules" / "second.yml").write_text(RULES)
    with pytest.raises(RuleError, match=r"second\.yml: .*'test-shell' already, in .*own\.yml"):
        choose(root, [], root)


def test_a_project_cannot_replace_a_rule_of_ours_and_a_person_can(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vivace.desk.rules._bundled_ids", lambda: frozenset({"test-shell"}))
    with pytest.raises(RuleError, match="comes with Vivace"):
        choose(root, [], root)
    elsewhere = (root / "vivace-rules").rename(root.parent / "moved")
    assert ids(choose(root, [elsewhere], root, ours=False)) == {
        "test-shell",
        "test-yaml",
        "test-nan",
    }


def test_links_lead_to_no_rules(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.yml").write_text("password: hunter2\n")
    (root / "vivace-rules" / "link.yml").symlink_to(tmp_path / "secret.yml")
    assert "test-shell" in ids(choose(root, [], root))
    (root / "vivace-rules").rename(root / "real")
    (root / "vivace-rules").symlink_to(root / "real")
    assert "test-shell" not in ids(choose(root, [], root))


@pytest.mark.parametrize("wrong", ["nothing.yml", "rules.txt"])
def test_what_is_no_rule_file_is_refused(root: Path, wrong: str) -> None:
    (root / "rules.txt").write_text(RULES)
    with pytest.raises(Exception, match=wrong):
        choose(root, [Path(wrong)], root)


def test_what_git_ignores_is_no_rule_of_the_project(root: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".gitignore").write_text("own.yml\n")
    assert "test-shell" not in ids(choose(root, [], root))


def test_the_same_choice_is_read_once() -> None:
    choice = Choice(named=(RuleText("r.yml", RULES),), bundled=False)
    assert rule_set(choice) is rule_set(Choice(named=(RuleText("r.yml", RULES),), bundled=False))
