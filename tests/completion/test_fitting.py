"""Gaps with more text around them than the model takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vivace.completion.fitting import fit, shown
from vivace.errors import InvalidRequest
from vivace.protocol.requests import Fill, OtherFile

LINES = st.text("ab\n", max_size=300)
MARKS = 16
"""Tokens that are kept free for the model's own."""


def by_characters(text: str) -> int:
    return len(text)


def file(name: str, size: int) -> OtherFile:
    return OtherFile(name, name[0] * size)


def numbered(lines: int) -> str:
    return "".join(f"line {number:03}\n" for number in range(lines))


def test_what_fits_stays_as_it_is() -> None:
    gap = Fill(prefix="a\n", suffix="\nb", typed="c", path="m.py", files=(file("n.py", 20),))
    assert fit(gap, 1000, by_characters) == gap


def test_the_oldest_files_go_first_and_the_text_around_the_gap_stays() -> None:
    files = tuple(file(name, 100) for name in ("old.py", "newer.py", "newest.py"))
    gap = Fill(prefix="p" * 50, suffix="s" * 50, path="m.py", files=files)
    assert [each.path for each in fit(gap, 400, by_characters).files] == ["newer.py", "newest.py"]
    assert fit(gap, 130, by_characters) == replace(gap, files=())


def test_lines_farthest_from_the_gap_go_next() -> None:
    gap = Fill(prefix=numbered(100), suffix=numbered(100), files=(file("n.py", 10),))
    fitted = fit(gap, 400 + MARKS, by_characters)
    assert fitted.files == ()
    assert fitted.prefix == numbered(100)[-300:].partition("\n")[2]
    assert fitted.suffix == numbered(11)


def test_a_short_side_leaves_its_room_to_the_other() -> None:
    short, long = numbered(3), numbered(100)
    behind = fit(Fill(prefix=short, suffix=long), 400 + MARKS, by_characters)
    before = fit(Fill(prefix=long, suffix=short), 400 + MARKS, by_characters)
    assert (behind.prefix, behind.suffix) == (short, numbered(41))
    assert before.suffix == short
    assert len(before.prefix) > 360


def test_a_line_that_is_too_long_by_itself_is_cut_inside() -> None:
    fitted = fit(Fill(prefix="p" * 1000, suffix="s" * 1000), 400 + MARKS, by_characters)
    assert (fitted.prefix, fitted.suffix) == ("p" * 300, "s" * 100)


def test_keys_do_not_move_the_place_where_the_text_is_cut() -> None:
    """Or the engine would read all of it again at each of them."""
    gap = Fill(prefix=numbered(100), suffix=numbered(100))
    typed = [replace(gap, typed="x" * keys) for keys in range(1, 200)]
    assert len({(each.prefix, each.suffix) for each in _all_fitted(typed)}) == 1


def _all_fitted(gaps: list[Fill]) -> list[Fill]:
    return [fit(each, 1000, by_characters) for each in gaps]


def test_what_was_typed_is_never_cut() -> None:
    gap = Fill(prefix=numbered(9), suffix="", typed="x" * 200)
    assert fit(gap, 256 + MARKS, by_characters) == replace(gap, prefix="")
    with pytest.raises(InvalidRequest, match="typed") as caught:
        fit(gap, 256, by_characters)
    assert caught.value.code == "context_length_exceeded"


@given(
    LINES,
    LINES,
    st.text("ab", max_size=20),
    st.lists(st.builds(OtherFile, st.just("n.py"), LINES), max_size=3),
    st.integers(MARKS + 256, 900),
    st.integers(1, 4),
)
def test_whatever_is_around_the_gap_it_fits_in_the_end(
    prefix: str, suffix: str, typed: str, files: list[OtherFile], limit: int, per_token: int
) -> None:
    def count(text: str) -> int:
        return -(-len(text) // per_token)

    gap = Fill(prefix=prefix, suffix=suffix, typed=typed, files=tuple(files))
    fitted = fit(gap, limit, count)
    assert count(shown(fitted)) <= limit
    assert prefix.endswith(fitted.prefix)
    assert suffix.startswith(fitted.suffix or "")
    assert fitted.typed == typed
    assert not fitted.files or (fitted.prefix, fitted.suffix) == (prefix, suffix)


def test_many_files_are_counted_a_few_times_and_not_once_for_each() -> None:
    files = tuple(file(f"{number}.py", 10) for number in range(1000))
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return len(text)

    gap = Fill(prefix="p", suffix="s", files=files)
    kept = fit(gap, 500 + MARKS, count).files
    assert kept == files[-len(kept) :]
    assert by_characters(shown(replace(gap, files=kept))) <= 500
    assert by_characters(shown(replace(gap, files=files[-len(kept) - 1 :]))) + 4 * len(kept) > 500
    assert len(counted) < 20
