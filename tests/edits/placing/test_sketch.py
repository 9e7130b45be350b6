"""Sketches that say themselves where they go, and those that a model has to carry out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.editing import LOADED, SHOP
from vivace.edits.attempt import Task
from vivace.edits.placing.sketch import leaves_out, placed
from vivace.edits.sketched import carried_out
from vivace.syntax.hunk import apply
from vivace.syntax.source import Source

LOAD = "def load(path):\n    with open(path) as file:\n        return json.load(file)\n"
CLEAR = "    def clear(self):\n        self.items.clear()\n"


def after(sketch: str, text: str = SHOP, path: str = "shop.py") -> str | None:
    """The file with the sketch in its place; None where a model is needed."""
    found = placed(Source.of(path, text), sketch)
    return None if found is None else apply(text, found.hunks)


@pytest.mark.parametrize(
    "sketch",
    [
        LOAD,
        f"```python\n{LOAD}```",
        f"# ... existing code ...\n\n{LOAD}",
        f'"""A shop."""\n\nimport json\n\n# ... rest of the code ...\n\n\n{LOAD}',
    ],
)
def test_a_definition_takes_the_place_of_its_namesake(sketch: str) -> None:
    assert after(sketch) == LOADED


def test_of_a_class_only_what_is_written_out_changes() -> None:
    total = "    def total(self):\n        return sum(item['price'] for item in self.items)\n"
    new = after(f"class Cart:\n    # ... existing code ...\n\n{total}    # ... other methods ...\n")
    assert new is not None
    assert total in new
    assert "result" not in new
    assert new.count("def ") == SHOP.count("def ")


def test_a_method_may_come_without_its_class() -> None:
    old = 'item["price"]\n'
    method = (
        "def total(self):\n    result = 0\n    for item in self.items:\n"
        '        result += item["price"] * item["count"]\n    return result\n'
    )
    assert after(method) == SHOP.replace(old, 'item["price"] * item["count"]\n')


def test_what_is_new_stands_where_it_is_sketched() -> None:
    add = "    def add(self, item):\n        # keep the order\n        self.items.append(item)\n"
    behind_add = after(f"class Cart:\n    # ...\n{add}\n{CLEAR}\n    # ... existing code ...\n")
    assert behind_add == SHOP.replace(add, f"{add}\n{CLEAR}")
    at_the_end = after(f"class Cart:\n    # ... existing code ...\n\n{CLEAR}")
    assert at_the_end == SHOP.replace(
        "        return result\n", f"        return result\n\n{CLEAR}"
    )
    save = "def save(path, cart):\n    path.write_text(json.dumps(cart.items))\n"
    assert after(f"# ... existing code ...\n\n\n{save}") == f"{SHOP}\n\n{save}"


def test_what_leads_a_definition_stays_unless_the_sketch_leads_it_too() -> None:
    text = "package a\n\n// B counts.\nfunc B() int {\n\treturn 2\n}\n"
    assert after("func B() int {\n\treturn 3\n}\n", text, "a.go") == text.replace("2", "3")
    new = after("// B counts up.\nfunc B() int {\n\treturn 3\n}\n", text, "a.go")
    assert new == text.replace("counts", "counts up").replace("2", "3")


@pytest.mark.parametrize(
    "sketch",
    [
        "def total(self):\n    # ... existing code ...\n    return round(result, 2)\n",
        "def total(self):\n    result = 1\n    # ... existing code ...\n",
        "LIMIT = 3\n\n" + LOAD,
        "def read(path):\n    file = open(path)\n    return json.load(file)\n",
        "class Cart:\n    # ... existing code ...\n",
        "def load(path:\n",
        "# everything goes\n",
        "...\n",
        "",
    ],
    ids=lambda sketch: sketch[:30],
)
def test_what_is_not_clear_is_left_to_a_model(sketch: str) -> None:
    assert after(sketch) is None


def test_a_decorator_that_is_left_out_is_not_lost() -> None:
    text = "class A:\n    @property\n    def b(self):\n        return 1\n"
    assert after("class A:\n    def b(self):\n        return 2\n", text, "a.py") is None


def test_what_is_placed_is_checked_like_any_edit() -> None:
    task = Task("shop.py", SHOP, "Make the change that is sketched: load")
    emptied = carried_out(task, "def load(path):\n    pass\n")
    assert emptied is not None
    assert "returns" in [problem.code for problem in emptied[1].problems]
    good = carried_out(task, f"import os\n\n{LOAD.replace('open(path)', 'open(os.fspath(path))')}")
    assert good is not None
    assert good[1].problems == ()
    assert "import json\nimport os\n" in good[1].text


def test_lines_that_a_person_selected_are_not_left() -> None:
    task = Task("shop.py", SHOP, "Make the change that is sketched.", (5, 10))
    assert carried_out(task, LOAD) is None


@pytest.mark.parametrize(
    ("line", "stands_for_code"),
    [
        ("# ... existing code ...", True),
        ("    // ... rest of the methods ...", True),
        ("/* ... unchanged ... */", True),
        ("# existing code ...", True),
        ("...", True),
        ("# the rest of the code is elsewhere", False),
        ("x = ...", False),
    ],
)
def test_which_lines_stand_for_code(line: str, stands_for_code: bool) -> None:
    assert leaves_out(line) == stands_for_code


@given(st.lists(st.sampled_from([*SHOP.splitlines(), "# ... existing code ...", "x = 1"])))
def test_nothing_is_lost_outside_of_what_is_written_out(lines: list[str]) -> None:
    found = placed(Source.of("shop.py", SHOP), "\n".join(lines))
    if found is not None:
        for hunk in found.hunks:
            inside = any(
                each.start <= hunk.start and hunk.end <= each.end for each in found.regions
            )
            assert inside or not hunk.old
