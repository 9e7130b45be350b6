"""Which places a failure leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from vivace.desk.suspects import Sources, expectation, suspects
from vivace.failures.failure import Failure, Frame, Kind
from vivace.workspace.paths import Workspace

SHOP = """\
RATES = {"a": 1}


def rate(name):
    return RATES[name]


def total(prices, name="a"):
    return sum(prices) * rate(name)


class Cart:
    def total(self):
        return total(self.prices)"""
TEST = """\
import shop


def test_total():
    prices = [1, 2]
    assert shop.total(
        prices,
    ) == 4
    assert prices
"""
HELPED = """\
import shop


def made():
    return shop.rate("a")


def test_made():
    assert made() == 2
"""
STEPS = """\
def outer(x):
    return middle(x)


def middle(x):
    return inner(x)


def inner(x):
    return x + 1
"""
OTHER = "def total(x):\n    return x\n"
RUST = """\
pub fn third(items: &[u32]) -> u32 {
    items[2]
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds() {
        assert_eq!(super::third(&[1, 2, 3]), 4);
    }
}
"""


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    files = {
        "shop.py": SHOP,
        "test_shop.py": TEST,
        "another.py": OTHER,
        "test_other.py": "def test_it():\n    nowhere\n",
        "test_helped.py": HELPED,
        "test_script.py": "import shop\n\nfound = shop.rate('a')\nassert found == 2\n",
        "lib.rs": RUST,
        "steps.py": STEPS,
        "Makefile": "test:\n\tpytest\n",
        ".env": "A=1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return Sources(Workspace(tmp_path))


def places(sources: Sources, kind: Kind, *frames: Frame) -> list[str]:
    failure = Failure(kind=kind, message="x", frames=frames)
    return [f"{each.path} {each.name}" for each in suspects(failure, sources)]


def test_an_error_is_where_it_happened_then_at_who_called_it(sources: Sources) -> None:
    found = places(
        sources, "error", Frame("shop.py", 4), Frame("shop.py", 8), Frame("test_shop.py", 5)
    )
    assert found[:2] == ["shop.py rate", "shop.py total"]


def test_an_expectation_leads_to_what_the_line_calls_in_the_file_that_is_imported(
    sources: Sources,
) -> None:
    found = places(sources, "assertion", Frame("test_shop.py", 5))
    assert found[:2] == ["shop.py total", "shop.py Cart.total"]
    assert "test_shop.py test_total" not in found


def test_what_the_suspect_calls_comes_behind_it(sources: Sources) -> None:
    (_, *rest) = places(sources, "error", Frame("shop.py", 8))
    assert "shop.py rate" in rest


def test_where_few_places_are_known_it_goes_on_to_what_these_use(sources: Sources) -> None:
    found = places(sources, "error", Frame("steps.py", 1))
    assert found == ["steps.py outer", "steps.py middle", "steps.py inner"]


def test_a_line_of_a_file_in_no_known_language_is_a_place_by_itself(sources: Sources) -> None:
    assert places(sources, "exit", Frame("Makefile", 1)) == ["Makefile "]


def test_a_value_of_the_file_that_the_line_names_is_a_place_too(sources: Sources) -> None:
    assert places(sources, "error", Frame("shop.py", 4)) == ["shop.py rate", "shop.py RATES"]


def test_what_a_helper_of_the_test_calls_is_looked_for(sources: Sources) -> None:
    assert places(sources, "assertion", Frame("test_helped.py", 8)) == ["shop.py rate"]


def test_a_script_leads_to_what_it_called_before(sources: Sources) -> None:
    assert places(sources, "assertion", Frame("test_script.py", 3)) == ["shop.py rate"]


def test_an_error_in_a_test_is_its_own_only_where_it_calls_nothing_of_ours(
    sources: Sources,
) -> None:
    assert places(sources, "error", Frame("test_shop.py", 5))[0] == "shop.py total"
    assert places(sources, "error", Frame("test_other.py", 1)) == ["test_other.py test_it"]
    assert places(sources, "assertion", Frame("test_other.py", 1)) == []


def test_what_cannot_be_compiled_is_mended_where_it_is_even_in_a_test(sources: Sources) -> None:
    assert places(sources, "compile", Frame("test_shop.py", 5))[0] == "test_shop.py test_total"


def test_a_test_inside_of_the_file_it_tests_is_a_test(sources: Sources) -> None:
    assert places(sources, "assertion", Frame("lib.rs", 8)) == ["lib.rs third"]


def test_a_frame_without_a_line_is_found_by_its_name(sources: Sources) -> None:
    assert places(sources, "error", Frame("shop.py", None, "rate"))[0] == "shop.py rate"


def test_lines_of_the_file_itself_have_no_name(sources: Sources) -> None:
    failure = Failure(kind="error", message="x", frames=(Frame("shop.py", 0),))
    place = suspects(failure, sources)[0]
    assert (place.name, place.lines, place.at) == ("", (0, 1), 0)


@pytest.mark.parametrize("path", [".env", "nowhere.py", "../outside.py"])
def test_what_no_model_may_see_or_is_not_there_is_no_place(sources: Sources, path: str) -> None:
    assert places(sources, "error", Frame(path, 0)) == []


def test_a_line_beyond_the_end_is_no_place(sources: Sources) -> None:
    assert places(sources, "error", Frame("shop.py", 4000)) == []


def test_a_test_is_told_up_to_the_statement_that_fails(sources: Sources) -> None:
    failure = Failure(kind="assertion", message="x", frames=(Frame("test_shop.py", 5),))
    assert expectation(failure, sources) == TEST.partition("def ")[2].join(["def ", ""]).replace(
        "\n    assert prices\n", ""
    )
    error = Failure(kind="error", message="x", frames=(Frame("shop.py", 4),))
    assert expectation(error, sources) == ""
