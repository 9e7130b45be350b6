"""Labelled pairs are what FORMAT.md says, and a file that is not is refused by name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from bench.finding_sets import BadSet, Pair, read

from vivace.syntax.source import Source

SETS = Path(__file__).parents[2] / "bench/finding_sets"
PAIRS = read(SETS / "tuning")

every_pair = pytest.mark.parametrize("pair", PAIRS, ids=[pair.id for pair in PAIRS])

GOOD = """
[[pair]]
id = "py-one"
language = "python"
cwe = 95
line = 1
vulnerable = "eval(x)"
fixed = "int(x)"
"""


@every_pair
def test_both_texts_parse(pair: Pair) -> None:
    for text in (pair.vulnerable, pair.fixed):
        source = Source.of(pair.path, text)
        assert source.is_in(pair.language)
        assert source.errors == []


@every_pair
def test_a_line_to_be_reported_has_code_on_it(pair: Pair) -> None:
    lines = pair.vulnerable.splitlines()
    for line in pair.lines:
        assert 1 <= line <= len(lines)
        assert lines[line - 1].strip(" \t(){};,")


@every_pair
def test_the_fault_is_mended_in_a_small_file(pair: Pair) -> None:
    assert pair.vulnerable != pair.fixed
    for text in (pair.vulnerable, pair.fixed):
        assert 8 <= len(text.splitlines()) <= 40


def test_ids_are_unique() -> None:
    assert max(Counter(pair.id for pair in PAIRS).values()) == 1


def test_every_language_has_its_share() -> None:
    assert Counter(pair.language for pair in PAIRS) == {
        "python": 26,
        "javascript": 14,
        "typescript": 12,
        "c": 14,
        "cpp": 9,
        "go": 13,
        "rust": 9,
        "java": 13,
    }


def test_the_example_of_the_format_can_be_read(tmp_path: Path) -> None:
    _, _, rest = (SETS / "FORMAT.md").read_text().partition("```toml\n")
    (tmp_path / "example.toml").write_text(rest.partition("```")[0])
    [pair] = read(tmp_path)
    assert pair.vulnerable.splitlines()[pair.lines[0] - 1] == "    path = LOGS / name"


def test_one_line_or_several_are_read_alike(tmp_path: Path) -> None:
    several = GOOD.replace("py-one", "py-two").replace("line = 1", "line = [1]")
    (tmp_path / "python.toml").write_text(GOOD + several)
    assert [pair.lines for pair in read(tmp_path)] == [(1,), (1,)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("line = 1", "line = 2", "pair py-one: line: vulnerable has 1 lines, not 2"),
        ("line = 1", "line = 0", "pair py-one: Expected"),
        ("line = 1", "line = []", "pair py-one: Expected"),
        ('"int(x)"', '"eval(x)"', "pair py-one: fixed: is the same"),
        ("cwe = 95", "cwe = 'high'", "pair py-one: Expected `int`, got `str` - at `cwe`"),
        ("cwe = 95", "cwe = 95\nnote = 'x'", "pair py-one: Object contains unknown field `note`"),
        ("py-one", "Py One", "pair Py One: id: small letters"),
        ('id = "py-one"', "", "pair number 1: Object missing required field `id`"),
        ("[[pair]]", "[pair]", "has [[pair]] tables and nothing else"),
        ("[[pair]]", "[[pair]", "cannot be read"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_pair(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    file = tmp_path / "python.toml"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(BadSet) as refused:
        read(tmp_path)
    assert str(refused.value).startswith(f"{file}: {said}")


def test_an_id_stands_once_in_all_files(tmp_path: Path) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(BadSet, match=r"b\.toml: pair py-one: id: stands there twice"):
        read(tmp_path)


def test_a_folder_without_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSet, match="no TOML file"):
        read(tmp_path)
