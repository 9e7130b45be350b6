"""What a model remarks: only what quotes a new line counts, however the answer comes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.desk.excerpts import Excerpt
from vivace.desk.remarks import Dropped, RemarkReader, question
from vivace.syntax.finding import REMARK, Finding

LINES = (
    "def load(path):\n",
    "    file = open(path)\n",
    "    flags = a | b || c\n",
    "    pass\n",
    "    pass\n",
    "\tx\n",
    "    return file.read()\n",
)
EXCERPT = Excerpt(
    "shop.py",
    "load",
    tuple((row + 10, line) for row, line in enumerate(LINES)),
    frozenset({11, 12, 13, 14, 15}),
)


def read(answer: str, piece: int = 10_000) -> list[Finding | Dropped]:
    reader = RemarkReader(EXCERPT)
    found: list[Finding | Dropped] = []
    for at in range(0, len(answer), piece):
        found += reader.feed(answer[at : at + piece])
    return found + list(reader.finish())


def one(answer: str) -> Finding:
    (found,) = read(answer)
    assert isinstance(found, Finding), found
    return found


# -- what counts ----------------------------------------------------------------------------------


def test_a_remark_is_a_note_on_its_line_and_on_what_it_quotes() -> None:
    found = one("12 | open(path) | The file stays open; use with.\n")
    assert found == Finding(
        REMARK,
        "The file stays open; use with.",
        "Line 12: The file stays open; use with.",
        "note",
        (11, 12),
        (11, 21),
    )


@pytest.mark.parametrize(
    "line",
    [
        "12 | file = open(path) | stays open",
        "  12|file = open(path)|stays open",
        "- 12 | `file = open(path)` | stays open",
        "* Line 12 | file  =  open(path) | stays open",
        "shop.py:12 | file = open(path) | stays open",
        "12 | +     file = open(path) | stays open |",
        "`12` | file = open(path)... | stays open",
        "12 + | file = open(path) | stays open",
        "99 | file = open(path) | stays open",  # models count badly
    ],
)
def test_small_slips_of_form_are_understood(line: str) -> None:
    found = one(line)
    assert (found.lines, found.person) == ((11, 12), "stays open")


def test_code_with_bars_can_be_quoted() -> None:
    assert one("13 | flags = a | b || c | wrong | or not").person == "wrong | or not"
    assert one("13 | a | b | wrong").person == "wrong"


def test_a_line_that_is_there_twice_is_told_by_its_number() -> None:
    assert one("15 | pass | does nothing").lines == (14, 15)


def test_a_short_line_can_be_quoted_whole_where_it_stands() -> None:
    assert one("16 | x | not defined").lines == (15, 16)


# -- what does not --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "12 | os.system(path) | runs anything",  # not there
        "11 | def load(path): | no type",  # there, but not new
        "17 | return file.read() | stays open",
        "2 | file = open( | stays open | really" * 200,
        "30 | pass | which of them?",
        "12 | e | stands in every line",
        "12 |  | quotes nothing",
        "12 | file = open(path)",
        "7 | for place in range(len(names) - 1): | leaves out the last name",
    ],
)
def test_what_quotes_no_new_line_is_dropped(line: str) -> None:
    assert [type(each) for each in read(line)] == [Dropped]


@pytest.mark.parametrize(
    "answer",
    [
        "none",
        "",
        "Here are my remarks:\n\n```\nnone\n```\n",
        "12 | file = open(path) | none",
        "12 | file = open(path) | No issues.",
        "12 | file = open(path) | Looks good to me",
        "12 | file = open(path) | there is nothing wrong",
    ],
)
def test_what_says_nothing_is_no_remark(answer: str) -> None:
    assert read(answer) == []


def test_a_remark_that_is_repeated_counts_once() -> None:
    assert len(read("12 | open(path) | stays open\n" * 50)) == 1


def test_a_line_without_an_end_is_dropped_and_not_kept() -> None:
    reader = RemarkReader(EXCERPT)
    for _ in range(1000):
        assert list(reader.feed("12 | open(path) | " + "x" * 1000)) == []
    assert list(reader.feed("\n12 | open(path) | stays open\n")) == [
        Dropped("it does not end"),
        one("12 | open(path) | stays open"),
    ]


def test_a_long_remark_is_cut() -> None:
    assert len(one(f"12 | open(path) | {'word ' * 300}").person) == 500


# -- however it comes -----------------------------------------------------------------------------


@given(st.integers(1, 40))
def test_it_does_not_matter_how_the_answer_is_cut(piece: int) -> None:
    answer = "Remarks:\n12 | open(path) | stays open\n13 | nothing | x\n15 | pass | empty"
    assert read(answer, piece) == read(answer)


@given(st.text(alphabet=st.sampled_from("123|\n xpas\u2028\x1b`-+line:open(path)"), max_size=200))
def test_whatever_is_said_only_new_lines_are_remarked_on(answer: str) -> None:
    for each in read(answer):
        if isinstance(each, Finding):
            assert each.lines is not None
            assert each.lines[0] in EXCERPT.new
            assert each.columns is not None
            start, end = each.columns
            assert 0 <= start < end <= len(LINES[each.lines[0] - 10])


def test_the_question_ends_with_the_form_and_numbers_every_line() -> None:
    asked = question(EXCERPT)
    assert asked.startswith("shop.py, in load:\n11   def load(path):\n12 +     file = open(path)\n")
    assert asked.endswith("LINE | code | what is wrong; or none:")
