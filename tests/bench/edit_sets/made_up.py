"""A package that no registry has, with two tasks on it: what the tests of the sets work on."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

FILLER = "".join(f"LINE_{number} = {number}\n" for number in range(90))

SHOP = (
    '''"""A shop."""

import math


class Basket:
    """What is bought."""

    def __init__(self):
        self.prices = []

    def add(self, price):
        self.prices.append(price)

    def total(self):
        return sum(self.prices)


def rounded(price):
    return math.floor(price)


'''
    + FILLER
)

BOX_C = """#include <stddef.h>

static int twice(int value) {
  return value * 2;
}

int box_size(int width) {
  return twice(width) + 1;
}

""" + FILLER.replace("LINE", "enum { LINE").replace("\n", " };\n")

PYTHON = """
format = 1

[package]
registry = "pypi"
name = "shop"
version = "1.0"
archive = "shop-1.0-py3-none-any.whl"
sha256 = "@SHA256@"
licence = "MIT"
licence_file = "shop/LICENCE"

[[task]]
id = "shop-no-negative"
file = "shop/basket.py"
language = "python"
instruction = "negative prices must not get in, raise a ValueError"
kinds = ["one place", "add"]
expect = "edit"
visible = '''
from shop.basket import Basket
Basket().add(3)
'''
reference = '''
@@
     def add(self, price):
+        if price < 0:
+            raise ValueError("negative")
         self.prices.append(price)
'''
[[task.wrong]]
tag = "wrong"
diff = '''
@@
     def add(self, price):
+        if price < -1:
+            raise ValueError("negative")
         self.prices.append(price)
'''
[[task.wrong]]
tag = "damage"
diff = '''
@@
     def add(self, price):
-        self.prices.append(price)
+        if price < 0:
+            raise ValueError("negative")
'''
[task.check]
done = '''
from shop.basket import Basket
try:
    Basket().add(-0.5)
except ValueError:
    pass
else:
    raise AssertionError
'''
kept = '''
from shop.basket import Basket
basket = Basket()
basket.add(0)
basket.add(2)
assert basket.total() == 2
'''

[[task]]
id = "shop-which"
file = "shop/basket.py"
language = "python"
instruction = "use the new rate"
kinds = ["ask back"]
expect = "stop"
why = "No rate is in the file."
"""

C = """
format = 1

[package]
registry = "debian"
name = "box"
version = "1.0-1"
archive = "box_1.0.orig.tar.gz"
sha256 = "@SHA256@"
licence = "MIT"
licence_file = "box-1.0/LICENCE"

[[task]]
id = "box-wider"
file = "box-1.0/box.c"
language = "c"
instruction = "one more on the other side as well"
kinds = ["one place", "vague"]
expect = "edit"
reference = '''
@@
-  return twice(width) + 1;
+  return twice(width) + 2;
'''
[[task.wrong]]
tag = "wrong"
diff = '''
@@
-  return twice(width) + 1;
+  return twice(width + 1) + 1;
'''
[[task.wrong]]
tag = "damage"
diff = '''
@@
-  return value * 2;
+  return value * 2 + 1;
'''
[task.check]
done = "int main(void) { assert(box_size(3) == 8); return 0; }"
kept.program = "int main(void) { assert(twice(3) == 6); return 0; }"
kept.has = ['^static int twice']
"""


def wheel(folder: Path) -> str:
    """Writes the package for Python; returns the TOML that speaks of it."""
    path = folder / "shop-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("shop/__init__.py", "")
        packed.writestr("shop/basket.py", SHOP)
        packed.writestr("shop/LICENCE", "MIT")
    return _with_hash(PYTHON, path)


def source(folder: Path) -> str:
    """The same in C, as Debian keeps sources."""
    path = folder / "box_1.0.orig.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for name, text in (("box.c", BOX_C), ("LICENCE", "MIT")):
            member = tarfile.TarInfo(f"box-1.0/{name}")
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text.encode()))
    return _with_hash(C, path)


def _with_hash(text: str, archive: Path) -> str:
    return text.replace("@SHA256@", hashlib.sha256(archive.read_bytes()).hexdigest())
