from __future__ import annotations

import pytest
from bench.edit_sets.diffs import apply
from bench.edit_sets.errors import BadDiff

TEXT = "one\ntwo\n\nthree\ntwo\nfour\n"


def test_a_diff_as_diff_writes_it_is_applied() -> None:
    diff = "--- a\n+++ b\n@@ -1,3 +1,4 @@ heading\n one\n-two\n+2\n+zwei\n \n"
    assert apply(diff, TEXT) == "one\n2\nzwei\n\nthree\ntwo\nfour\n"


def test_the_number_chooses_between_equal_places_and_need_not_be_exact() -> None:
    assert apply("@@ -6 @@\n-two\n+2\n", TEXT) == "one\ntwo\n\nthree\n2\nfour\n"


def test_without_a_number_the_place_must_be_the_only_one() -> None:
    assert apply("@@\n three\n-two\n+2\n", TEXT) == "one\ntwo\n\nthree\n2\nfour\n"
    with pytest.raises(BadDiff, match="fits 2 places"):
        apply("@@\n-two\n+2\n", TEXT)


def test_a_second_hunk_is_looked_for_behind_the_first() -> None:
    assert apply("@@ -1 @@\n-two\n@@ -2 @@\n-two\n", TEXT) == "one\n\nthree\nfour\n"


def test_an_empty_line_of_context_may_have_lost_its_blank() -> None:
    assert apply("@@\n two\n\n-three\n+3\n", TEXT) == "one\ntwo\n\n3\ntwo\nfour\n"


def test_a_line_that_the_file_does_not_have_is_named() -> None:
    with pytest.raises(BadDiff, match="no line 'five'"):
        apply("@@\n one\n-five\n", TEXT)


@pytest.mark.parametrize("diff", ["", "one\n", "@@\n+new\n", "@@\n one\n", "@@\n*two\n"])
def test_what_is_no_diff_or_changes_nothing_is_refused(diff: str) -> None:
    with pytest.raises(BadDiff):
        apply(diff, TEXT)
