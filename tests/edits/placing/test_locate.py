"""What an instruction is about: whatever the person gave is heard, and doubt is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.placing.locate import choose
from vivace.edits.placing.pieces import LONGEST, pieces
from vivace.edits.placing.region import whole_file
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

CODE = '''\
import os

LIMIT = 3  # how many are kept


@cache
def load(path):
    with open(path) as file:
        return file.read()


class Store:
    """Keeps things."""

    def add(self, item):
        if item:
            self.items.append(item)
        else:
            raise ValueError("nothing to keep")

    def get_all(self):
        return list(self.items)


def parse_line(text):
    def inner():
        return text.strip()

    return inner()


def rgb_to_hsv(red, green, blue):
    return red - blue


def hsv_to_rgb(hue, value):
    return hue + value
'''
LONG = CODE + "".join(f"\nVALUE_{n} = {n}\n" for n in range(90))
IN_LONG = Source.of("shop.py", LONG)


def chosen(instruction: str, source: Source = IN_LONG) -> list[str]:
    """By their names; of what has none, its first line."""
    found = choose(source, instruction, path="shop.py").regions
    return [each.name or source.lines[each.start].strip() for each in found]


@pytest.mark.parametrize(
    ("instruction", "names"),
    [
        ("add a docstring to `load`", ["load"]),
        ("add type hints to Store.add", ["Store.add"]),
        ("use a comprehension in get_all", ["Store.get_all"]),
        ("make parse_line() faster", ["parse_line"]),
        ("type hints for rgb_to_hsv and hsv_to_rgb pls", ["rgb_to_hsv", "hsv_to_rgb"]),
        ("Typen für Store.add und get_all", ["Store.add", "Store.get_all"]),
    ],
)
def test_all_definitions_that_are_named_are_shown(instruction: str, names: list[str]) -> None:
    assert chosen(instruction) == names
    assert choose(IN_LONG, instruction).sure


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("load: close the file", "load"),
        ("the conversion from hsv to rgb should clamp the hue", "hsv_to_rgb"),
        ("say 'nothing to keep here' instead of 'nothing to keep'", "Store"),
        ("strip the text twice", "parse_line"),
        ("raise a TypeError when the item is empty", "Store"),
        ("raise a TypeEror when the itme is empty", "Store"),
    ],
)
def test_words_names_and_strings_of_the_code_show_the_place(instruction: str, name: str) -> None:
    assert chosen(instruction)[0] == name


@pytest.mark.parametrize(
    "error",
    [
        'Traceback\n  File "src/shop.py", line 17, in add\n    self.items.append(item)\nKeyError',
        "shop.py:17: error: something is wrong",
        "at Store.add (shop.py:17:9)",
    ],
)
def test_a_line_number_in_an_error_shows_the_place(error: str) -> None:
    assert chosen(f"please fix\n{error}")[0].startswith("Store")


def test_line_numbers_of_other_files_say_nothing() -> None:
    assert chosen('  File "other.py", line 17, in f\nfix the hue')[0] == "hsv_to_rgb"


def test_a_number_that_no_line_has_says_nothing() -> None:
    assert chosen(f"fix the hue, line {'9' * 5000}")[0] == "hsv_to_rgb"


def test_a_small_file_is_shown_whole_when_nothing_is_named() -> None:
    small = Source.of("a.py", CODE)
    assert choose(small, "make it better").regions == (whole_file(small),)


def test_what_cannot_be_told_is_not_sure() -> None:
    assert not choose(IN_LONG, "make it better").sure


def test_never_more_is_shown_than_a_small_model_can_rewrite() -> None:
    text = "".join(f"def f{n}(x):\n    return total(x)\n\n\n" for n in range(200))
    found = choose(Source.of("a.py", text), "return the total of x twice")
    assert 0 < sum(map(len, found.regions)) <= 120


def test_of_a_long_function_the_statements_in_question_are_shown() -> None:
    body = "".join(f"    step_{n} = {n}\n\n" for n in range(100))
    source = Source.of("a.py", f"def run():\n{body}    retries = 5\n    return step_1\n")
    found = choose(source, "more retries in run()").regions
    assert any(each.start <= 201 < each.end for each in found)
    assert all(len(each) <= LONGEST for each in found)


@given(st.text("ab(:)\n \t#def", max_size=200))
def test_every_filled_line_is_in_one_piece(text: str) -> None:
    source = Source.of("a.py", text)
    rows = [row for each in pieces(source) for row in range(each.start, each.end)]
    assert len(rows) == len(set(rows))
    filled = {row for row, line in enumerate(lines_of(text)) if any(map(str.isalnum, line))}
    assert filled <= set(rows)


@given(st.text("ab(:)\n \t#", max_size=60), st.text(max_size=30))
def test_a_choice_always_lies_in_the_file(text: str, instruction: str) -> None:
    for each in choose(Source.of("a.py", text), instruction).regions:
        assert 0 <= each.start <= each.end <= len(lines_of(text))


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("cut it off at the maximum", "shorten"),
        (r"al partir la línea, \r tiene que separar", "split"),
        ("use the strongest compresion there is", "dump"),
        ("the ^ should mean not", "negated"),
    ],
)
def test_abbreviations_escapes_operators_and_slips_are_heard(instruction: str, name: str) -> None:
    filler = "".join(f"def other_{n}(thing):\n    return thing\n\n\n" for n in range(20))
    source = Source.of(
        "a.py",
        "def shorten(text, max_size):\n    return text[:max_size]\n\n\n"
        "def split(text):\n    return text.split('\\r')\n\n\n"
        "def dump(text):\n    return zlib.compress(text)\n\n\n"
        "def negated(a, b):\n    return a ^ b\n\n\n" + filler,
    )
    assert choose(source, instruction).regions[0].name == name


def test_tests_are_not_meant_where_nobody_speaks_of_them() -> None:
    source = Source.of(
        "a.rs",
        "fn indent(s: &str) {\n    empty();\n}\n"
        + "".join(f"fn other{n}() {{}}\n" for n in range(60))
        + "mod tests {\n    fn indent_empty() {\n        indent(empty());\n    }\n}\n",
    )
    assert choose(source, "indent leaves empty ones alone").regions[0].name == "indent"


def test_the_comments_above_a_definition_belong_to_its_piece() -> None:
    source = Source.of("a.rs", "use a::b;\n\n/// Does.\n/// It.\n#[inline]\nfn f() {}\n")
    assert [(each.start, each.end) for each in pieces(source)] == [(0, 1), (2, 6)]


def test_in_a_file_of_tests_they_are_what_is_meant() -> None:
    filler = "".join(f"def test_other_{n}():\n    assert other() == {n}\n\n\n" for n in range(40))
    helper = "def cart(value):\n    return {'sum': value, 'discount': 0}\n\n\n"
    meant = (
        "def test_the_sum():\n    assert cart(3)['discount'] == 0\n    assert discount == 2\n\n\n"
    )
    source = Source.of("test_a.py", filler + helper + meant)
    found = choose(source, "the discount is wrong")
    assert found.regions[0].name == "test_the_sum"


OTHERS = "".join(f"function other{n}(thing) {{\n  return thing\n}}\n\n" for n in range(40))


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("make the 4096 a constant", "read"),
        ("if BLOCKSIZE isnt set use 512", "blocks"),
        ("read: nothing if it is closed", "read"),
        ("doc comment for Blocks", "Blocks"),
    ],
)
def test_a_name_or_a_number_that_only_one_place_has_is_that_place(
    instruction: str, name: str
) -> None:
    source = Source.of(
        "a.js",
        "exports.read = (file) => {\n  return file.take(4096)\n}\n\n"
        "const blocks = () => {\n  return Number(env.BLOCKSIZE)\n}\n\n"
        "class Blocks {\n  // Blocks, counted one by one.\n  blocks() {}\n}\n\n" + OTHERS,
    )
    found = choose(source, instruction)
    assert ([each.name for each in found.regions], found.sure) == ([name], True)


def test_comments_and_imports_are_not_meant_because_they_have_many_words() -> None:
    licence = "".join(f"// The thing is licensed for others as is, part {n}\n" for n in range(30))
    source = Source.of("a.js", f"{licence}import x from 'x'\n\n{OTHERS}")
    found = choose(source, "the thing returned should be another")
    assert all(each.start > 30 for each in found.regions)


def test_the_parts_of_one_function_are_one_place() -> None:
    body = "".join(f"    retries = step(retries, {n})\n\n" for n in range(60))
    filler = "".join(f"def other_{n}(thing):\n    return thing\n\n\n" for n in range(20))
    source = Source.of("a.py", f"def run():\n{body}    return retries\n\n\n{filler}")
    found = choose(source, "count the retries of every step and return them by number")
    assert found.sure
    assert {each.name for each in found.regions} == {"run"}


@pytest.mark.parametrize(
    ("instruction", "names"),
    [
        ("type hints for shrinkuser and expandpath pls", ["shrinkuser", "expandpath"]),
        ("the comment of shrinkuser claims too much", ["shrinkuser"]),
        ("shrinkuser and expandpath claim too much", ["shrinkuser", "expandpath"]),
        ("extend what a member is", None),
        ("the user of a path claims too much", None),
    ],
)
def test_definitions_that_are_called_by_plain_names_are_meant_if_nothing_is_likelier(
    instruction: str, names: list[str] | None
) -> None:
    two = "def shrinkuser(path):\n    return path\n\n\ndef expandpath(path):\n    return path\n\n\n"
    other = "".join(f"def path_{n}(thing):\n    return thing\n\n\n" for n in range(60))
    other += "def extend(thing):\n    return thing\n\n\ndef for_member(thing):\n    return thing\n"
    found = choose(Source.of("a.py", two + other), instruction)
    assert found.sure == (names is not None)
    assert names is None or [each.name for each in found.regions] == names


def test_a_message_that_somebody_remembers_shows_where_it_stands() -> None:
    lines = "".join(f"def say_{n}():\n    return 'no version of {n}'\n\n\n" for n in range(60))
    said = "def complain():\n    raise ValueError('excessive number of version parts')\n\n\n"
    source = Source.of("a.py", said + lines)
    found = choose(source, "change excessive number of version parts to too many parts of version")
    assert found.sure
    assert [each.name for each in found.regions] == ["complain"]


def test_a_number_that_is_said_of_what_is_named_is_shown_with_it() -> None:
    """Of a class that is too long to be shown."""
    methods = "".join(
        f"    def method_{n}(self):\n        reader = {n}\n        return reader\n\n"
        for n in range(9)
    )
    size = "    def size_of_it(self):\n        return 4096\n\n"
    text = f'class Reader:\n    """Reads the reader of a reader."""\n\n{methods}{size}'
    rest = "".join(f"def other_{n}():\n    return {n}\n\n\n" for n in range(99))
    source = Source.of("a.py", text + methods * 4 + rest)
    found = choose(source, "Reader has its own 4096, use the constant")
    assert found.sure
    assert any("4096" in source.part(each.start, each.end) for each in found.regions)


def test_two_short_places_that_are_far_ahead_are_both_shown() -> None:
    two = (
        "def pack(sample):\n    return encode(sample, flavour)\n\n\n"
        "def unpack(sample):\n    return decode(sample, flavour)\n\n\n"
    )
    rest = "".join(f"def other_{n}(thing):\n    return thing\n\n\n" for n in range(60))
    found = choose(Source.of("a.py", two + rest), "the flavour of the sample is always the same")
    assert found.sure
    assert [each.name for each in found.regions] == ["pack", "unpack"]


def test_what_explains_a_long_function_is_a_piece_of_its_own() -> None:
    comment = "".join(f"/// Line {n}.\n" for n in range(60))
    body = "".join(f"    step({n});\n" for n in range(40))
    source = Source.of("a.rs", f"{comment}fn f() {{\n{body}}}\n")
    assert [(each.start, each.end) for each in pieces(source)] == [(0, 60), (60, 102)]


@pytest.mark.parametrize("line", ["\n", "}\n"])
def test_where_there_is_nothing_to_choose_from_the_file_is_shown(line: str) -> None:
    source = Source.of("a.py", line * 100)
    found = choose(source, "write a hello world")
    assert (found.regions, found.sure) == ((whole_file(source),), True)


# -- a selection, or a cursor ---------------------------------------------------------------------

METHODS = "".join(
    f"\n    def step_{number}(self):\n" + f"        self.done += {number}\n" * 10
    for number in range(20)
)
LARGE = Source.of(
    "a.py", f"class Machine:\n    done = 0\n    limit = 7\n{METHODS}\n\nrun(Machine())\n"
)


@pytest.mark.parametrize(
    ("selection", "instruction", "name"),
    [
        ((2, 3), "nine instead", "Machine"),
        ((0, len(LARGE.lines) - 3), "step_4 should say what it does", "Machine.step_4"),
        ((2, 3), "step_4 should say what it does", "Machine.step_4"),
        ((70, 71), "say what it does", "Machine.step_5"),
    ],
)
def test_what_is_selected_is_not_shown_as_a_whole_if_it_is_large(
    selection: tuple[int, int], instruction: str, name: str
) -> None:
    found = choose(LARGE, instruction, selection)
    assert found.sure
    assert [each.name for each in found.regions] == [name]
    assert sum(map(len, found.regions)) <= 20


def test_a_cursor_on_an_empty_line_of_a_long_file_says_little() -> None:
    empty = len(LARGE.lines) - 3
    found = choose(LARGE, "make it better", (empty, empty + 1))
    assert not LARGE.lines[empty].strip()
    assert not found.sure
    assert sum(map(len, found.regions)) <= 120


def test_nothing_outside_of_what_is_selected_is_found() -> None:
    found = choose(LARGE, "the total of run is wrong", (0, len(LARGE.lines) - 3))
    assert found.within.name == "Machine"
    assert all(found.within.contains(each.region) for each in found.ranked)
