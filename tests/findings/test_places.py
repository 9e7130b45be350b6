"""Words in texts and trees: what passes over code in which no rule can match."""

from __future__ import annotations

from vivace.findings.bundled import bundled
from vivace.findings.places import Places, nodes_with, places_of
from vivace.findings.regex import Regex
from vivace.syntax.languages import LANGUAGES, parse, walk

_PYTHON = LANGUAGES[0]
_CODE = "import os\n\n\ndef read(name):\n    return open(os.path.join(name)).read()\n"


def test_places_of_a_word_overlap() -> None:
    assert places_of(b"aa", b"aaa b aa") == [0, 1, 6]


def test_plan_finds_each_word_where_it_stands() -> None:
    plan = bundled().plan(_PYTHON)
    text = b"yaml.load(x)  # hmac.new(k) requests.get(u, verify=False)"
    places = plan.places_in(text, 100)
    for word in (b"yaml.", b"hmac.new(", b"requests", b"False"):
        at = 100 + text.index(word)
        assert places.words_between(at, at + 1), word
    assert not places.words_between(0, 100)
    assert plan.places_in(b"x = 1").words == 0


def test_node_with_many_words_is_taken_to_have_all() -> None:
    places = Places([(at, 1 << at % 2) for at in range(0, 200, 2)] + [(500, 4)])
    assert places.words_in_node(0, 10) == 1
    assert places.words_in_node(0, 200) == places.words == 5
    assert places.has_any(450, 501)
    assert not places.has_any(450, 500)


def test_nodes_with_a_word_are_those_whose_text_has_it() -> None:
    root = parse(_CODE, _PYTHON).root_node
    found = [node.id for node in nodes_with([b"open", b"join"], root)]
    texts = ((node.id, node.text or b"") for node in walk(root))
    assert found == [each for each, text in texts if b"open" in text or b"join" in text]


def test_nodes_with_a_word_leave_out_what_is_closed() -> None:
    root = parse(_CODE, _PYTHON).root_node
    types = [node.type for node in nodes_with([b"open"], root, {"function_definition"})]
    assert types == ["module", "function_definition"]


def test_words_of_an_expression_are_joined_where_they_are_short() -> None:
    assert Regex(r"^self\.(path|headers)$").words == {b"self.path", b"self.headers"}
    assert Regex(r"^(os|io)\.(open_file|read_all)$").words == {b"open_file", b"read_all"}
    assert Regex(r"^(a|b)(c|d)").words == {b"ac", b"ad", b"bc", b"bd"}
    assert Regex(r"^(a|b)x?c$").words == set()
