"""Writes what the standard libraries of our languages export to edits/importing/standard/.

    uv run python scripts/standard_names.py [LANGUAGE ...] [--typescript FOLDER]

Each table comes from the language itself: Python's sources, Go's list of its API, the classes of
the JDK's image, node's modules and TypeScript's declarations (the ``lib`` folder of its package),
the documentation that comes with Rust, and what g++ says about names it misses. Name those that are
installed. A line is a module and its names; ``*`` are those that need no import.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import importlib
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from html import unescape
from pathlib import Path

TABLES = Path(__file__).parents[1] / "src" / "vivace" / "edits" / "importing" / "standard"
_MODULE = '''"""Written by scripts/standard_names.py."""

# ruff: noqa: E501

from __future__ import annotations

__all__ = ["TABLE"]

TABLE = """\\
{}"""
'''
Table = dict[str, set[str]]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ODD = _words(
    "__future__ antigravity builtins ctypes curses distutils ensurepip idlelib lib2to3 "
    "msilib nturl2path pydoc_data test this tkinter turtle turtledemo typing_extensions "
    "venv"
)
_BARE = _words("collections contextlib copy dataclasses functools itertools textwrap")
"""Modules whose functions are commonly imported by name; of others only telling names are."""


def python() -> Table:
    table: Table = {"*": set(dir(builtins))}
    root = Path(sysconfig.get_path("stdlib"))
    for name in sorted(sys.stdlib_module_names - _ODD):
        if name.startswith("_"):
            continue
        table[name] = set()
        listed = _listed(root / f"{name}.py") or _listed(root / name / "__init__.py")
        if not listed and name in sys.builtin_module_names:
            listed = {each for each in dir(importlib.import_module(name)) if each[0] != "_"}
        table[name] = {each for each in listed if name in _BARE or _telling(each)}
    table["collections.abc"] = _listed(root / "_collections_abc.py")
    return table


def _listed(path: Path) -> set[str]:
    """What a module says it exports, as far as it says so in so many words."""
    if not path.is_file():
        return set()
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8", "replace"))):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "__all__":
            values = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            found |= {each for each in values if isinstance(each, str)}
    return {each for each in found if each.isidentifier()}


def _telling(name: str) -> bool:
    return "_" in name.strip("_") or (name[:1].isupper() and not name.isupper() and len(name) > 2)


_NEWER_GO = "cmp iter log/slog maps slices"
"""Packages that an older Go does not list."""


def go() -> Table:
    root = Path(_output("go", "env", "GOROOT").strip())
    members: Table = defaultdict(set)
    for path in root.glob("api/go1*.txt"):
        found = re.findall(
            r"^pkg ([\w/.]+)(?: \([\w-]+\))?, (?:func|type|var|const) ([A-Z]\w*)",
            path.read_text(),
            re.MULTILINE,
        )
        for package, name in found:
            members[package].add(name)
    packages = [*_output("go", "list", "std").split(), *_NEWER_GO.split()]
    public = {each for each in packages if not re.search(r"\b(internal|vendor)\b", each)}
    last: Table = defaultdict(set)
    for package in public:
        last[package.rpartition("/")[2]].add(package)
    table = {
        each: members[each] if len(last[each.rpartition("/")[2]]) > 1 else set() for each in public
    }
    source = (root / "src" / "builtin" / "builtin.go").read_text()
    names = re.findall(r"^(?:func|type|var) (\w+)|^\t(true|false|iota)\b", source, re.MULTILINE)
    return table | {
        "*": {one or other for one, other in names} | {"any", "comparable", "min", "max", "clear"}
    }


_JAVA = """
import java.lang.reflect.Modifier;
import java.net.URI;
import java.nio.file.*;
public class Names {
    public static void main(String[] arguments) throws Exception {
        Path root = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("/modules/java.base");
        Module base = Object.class.getModule();
        try (var files = Files.walk(root)) {
            for (Path file : (Iterable<Path>) files::iterator) {
                String name = root.relativize(file).toString();
                if (!name.endsWith(".class") || name.contains("$") || name.contains("-")) continue;
                String full = name.substring(0, name.length() - 6).replace('/', '.');
                int dot = full.lastIndexOf('.');
                if (dot < 0 || !base.isExported(full.substring(0, dot))) continue;
                if (Modifier.isPublic(Class.forName(full, false, null).getModifiers()))
                    System.out.println(full.substring(0, dot) + " " + full.substring(dot + 1));
            }
        }
    }
}
"""


def java() -> Table:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "Names.java"
        program.write_text(_JAVA)
        said = _output("java", str(program))
    table: Table = defaultdict(set)
    for line in said.splitlines():
        package, name = line.split()
        if package == "java.lang" or package.startswith(("java.", "javax.")):
            table["*" if package == "java.lang" else package].add(name)
    return dict(table)


_NODE = """
const modules = require("module").builtinModules;
const here = new Set(modules);  // what is run by -e has them as globals
const found = {"*": Object.getOwnPropertyNames(globalThis).filter((each) => !here.has(each))};
found["*"].push("process", "console");
for (const name of modules)
    if (!/^_|\\/|^(module|punycode|sys|test|trace_events|wasi)$/.test(name))
        found[name] = Object.keys(require(name)).filter((each) => !each.startsWith("_"));
console.log(JSON.stringify(found));
"""
_DECLARED = re.compile(
    r"^(?:declare )?(?:var|let|const|function|class|interface|type|namespace) (\w+)", re.MULTILINE
)


def javascript(typescript: Path | None) -> Table:
    table: Table = {
        name: set(names) for name, names in json.loads(_output("node", "-e", _NODE)).items()
    }
    table["*"] |= _words("require module exports __dirname __filename arguments undefined JSX")
    if typescript is None:
        raise SystemExit("javascript: name TypeScript's lib folder: --typescript FOLDER")
    for path in typescript.glob("lib.*.d.ts"):
        top = re.sub(r"\{[^{}]*\}", "{}", path.read_text("utf-8"))
        table["*"] |= set(_DECLARED.findall(top))
    return {name: names - (set() if name == "*" else table["*"]) for name, names in table.items()}


_RUST_APART = _words("arch os prelude intrinsics simd f16 f128 autodiff std_float")


def rust() -> Table:
    folder = Path(_output("rustc", "--print", "sysroot").strip(), "share/doc/rust/html/std")
    links = re.findall(
        r'href="[\w/]*(?:struct|enum|trait|type|union)\.\w+\.html">([\w:]+)</a>',
        (folder / "all.html").read_text(),
    )
    homes: Table = defaultdict(set)
    for path in links:
        home, _, name = path.rpartition("::")
        if home and home.partition("::")[0] not in _RUST_APART:
            homes[name].add(home)
    table: Table = defaultdict(set)
    for name, found in homes.items():
        shortest = min(found, key=len)
        if all(each == shortest or each.startswith(shortest + "::") for each in found):
            table[f"std::{shortest}"].add(name)
    for module in folder.glob("*/index.html"):
        if module.parent.name not in _RUST_APART and not re.fullmatch(
            r"[iuf]\d+|[iu]size", module.parent.name
        ):
            table[f"std::{module.parent.name}"] |= set()
    table["*"] = {
        "TryFrom",
        "TryInto",
        "FromIterator",
        "Self",
        "std",
        "core",
        "alloc",
        "crate",
        "super",
        "self",
    }
    for version in ("v1", "rust_2021"):
        text = unescape(
            re.sub(r"<[^>]+>", "", (folder / "prelude" / version / "index.html").read_text())
        )
        table["*"] |= set(re.findall(r"pub use [\w:]*::(\w+);", text))
    table["*"] |= _words(
        "bool char str i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64"
    )
    return dict(table)


_HINT = re.compile(r"'std::(\w+)' is defined in header '<(\w+)>'")


def cpp() -> Table:
    """What g++ itself says of names that are used without their header."""
    folder = Path("/usr/include/c++")
    version = max(folder.iterdir(), key=lambda each: int(each.name.partition(".")[0]))
    words: set[str] = set()
    for path in [*version.iterdir(), *(version / "bits").iterdir()]:
        if path.is_file():
            words |= set(re.findall(r"\b[a-z][a-z0-9_]{2,}\b", path.read_text("utf-8", "replace")))
    program = "".join(
        f"int a{at} = sizeof(std::{word});\n" for at, word in enumerate(sorted(words))
    )
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "names.cc"
        source.write_text("namespace std {}\n" + program)
        command = ["g++", "-std=c++20", "-fmax-errors=0", "-fsyntax-only", str(source)]
        said = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        ).stderr
    table: Table = defaultdict(set)
    for name, header in _HINT.findall(said):
        table[header].add(name)
    return dict(table)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _written(table: Mapping[str, Iterable[str]]) -> str:
    rows = sorted(table.items(), key=lambda row: (row[0] != "*", row[0]))
    return "".join(f"{module} {' '.join(sorted(names))}".rstrip() + "\n" for module, names in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("languages", nargs="*")
    parser.add_argument("--typescript", type=Path)
    options = parser.parse_args()
    makers = {
        "python": python,
        "go": go,
        "java": java,
        "javascript": lambda: javascript(options.typescript),
        "rust": rust,
        "cpp": cpp,
    }
    TABLES.mkdir(exist_ok=True)
    for language in options.languages or makers:
        table = makers[language]()
        (TABLES / f"{language}.py").write_text(_MODULE.format(_written(table)), "utf-8")
        print(f"{language}: {len(table)} modules, {sum(map(len, table.values()))} names")


if __name__ == "__main__":
    main()
