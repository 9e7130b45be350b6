"""A file in short shows what there is to call, and not the region itself."""

from __future__ import annotations

from vivace.edits.languages import LANGUAGES
from vivace.edits.outline import outline
from vivace.edits.region import choose

PYTHON = LANGUAGES[0]
CODE = """\
import os
from a import (
    b,
)


class Store:
    def add(
        self,
        item,
    ):
        self.items.append(item)

    def all(self):
        return self.items


def load(path): return open(path)
"""


def test_imports_and_heads_are_shown_and_bodies_are_not() -> None:
    region = choose(CODE, PYTHON, "change `Store.all`")
    assert outline(CODE, PYTHON, region) == (
        "import os\nfrom a import (\n    b,\n)\nclass Store:\n    def add(\n        self,\n"
        "        item,\n    ):\ndef load(path): return open(path)\n"
    )


def test_a_long_file_is_cut() -> None:
    code = CODE + "".join(f"def f{n}():\n    pass\n" for n in range(100))
    region = choose(code, PYTHON, "change `Store.all`")
    assert len(outline(code, PYTHON, region).splitlines()) <= 24
