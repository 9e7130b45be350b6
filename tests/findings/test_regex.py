"""Regular expressions of rules mean what they mean to Python, and never take long."""

from __future__ import annotations

import re

import pytest
import tree_sitter_python
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Language, Parser

from tests.support.examples import examples
from vivace.findings.pattern import OutOfSteps, Steps
from vivace.findings.regex import Regex, RegexError

_ROOT = Parser(Language(tree_sitter_python.language())).parse(b"x").root_node


def _steps(count: int = 10**9) -> Steps:
    return Steps(count, _ROOT)


def _found(regex: str, text: str) -> bool:
    return Regex(regex).found_in(text.encode(), _steps())


def _parts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join).map("({})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "+?"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
    )


_REGEX = st.recursive(
    st.sampled_from([*"ab_-", "[ab]", "[^a]", r"\w", r"\d", ".", "^", "$", r"\b", r"\.", "é"]),
    _parts,
    max_leaves=8,
)


@given(_REGEX, st.text(alphabet="ab_-.1é\n", max_size=8))
@settings(max_examples=examples(400), deadline=None)
def test_what_it_means(regex: str, text: str) -> None:
    expected = re.search(regex.replace("$", r"\Z"), text) is not None
    assert _found(regex, text) == expected
    ways = Regex(regex)._ways
    assert ways.found_in(text) == expected


@pytest.mark.parametrize(
    ("regex", "words"),
    [
        ("^(run|call)$", {"run", "call"}),
        (r"(^|\.)(system|popen)$", {"system", "popen"}),
        (r"^hashlib\.(md5|sha1)$", {"hashlib."}),
        (r"\w*", set()),
        ("(?i)md5", set()),
        ("(abc)?def", {"def"}),
    ],
)
def test_words(regex: str, words: set[str]) -> None:
    assert Regex(regex).words == {word.encode() for word in words}


def test_case() -> None:
    assert _found("(?i)^MD5$", "mD5")
    assert _found("a(?i:b)c", "aBc")
    assert not _found("a(?i:b)c", "aBC")


@pytest.mark.parametrize(
    "regex", ["^(a+)+$", "^(a|a)*$", "(.*)*b", "^" + "a?" * 40 + "a" * 40, r"^(\w+\s?)+$"]
)
def test_no_text_takes_long(regex: str) -> None:
    assert not _found(regex, "a" * 39 + "!")
    with pytest.raises(OutOfSteps):
        Regex("(a+)+$").found_in(b"a" * 100_000 + b"!", _steps(100))


@pytest.mark.parametrize(
    "regex",
    [
        "(?=a)",
        "(?<!a)",
        r"\1",
        "(a",
        "a)",
        "*a",
        "[a",
        r"\p{L}",
        "[a&&b]",
        "((a{999}){999})",
        "a{2",
        "(?x)a",
    ],
)
def test_refused(regex: str) -> None:
    with pytest.raises(RegexError):
        Regex(regex)
