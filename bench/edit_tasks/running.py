"""Runs an edited file with assertions behind it, in a process of its own and not for long."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tree_sitter import Node

from bench.edit_sets.schema import Language
from bench.edit_sets.syntax import walk
from bench.edit_tasks.source import Source

__all__ = ["compiles", "javascript", "missing_tools", "run"]

_SECONDS = 60
_TOOLS: dict[Language, str] = {"typescript": "node", "c": "gcc", "cpp": "g++"}
_STANDARDS: dict[Language, str] = {"c": "-std=gnu11", "cpp": "-std=c++17"}
_SUFFIXES: dict[Language, str] = {"c": ".c", "cpp": ".cpp"}


def missing_tools() -> dict[Language, str]:
    """The languages whose files are only looked at, because the program to run them is missing."""
    return {language: tool for language, tool in _TOOLS.items() if shutil.which(tool) is None}


def run(source: Source, assertions: str, prelude: str = "") -> str | None:
    """What went wrong, or None. ``prelude`` comes ahead of the file (C and C++ only)."""
    if source.language in missing_tools():
        return None
    with tempfile.TemporaryDirectory() as folder:
        if source.language == "python":
            return _run([sys.executable, "-I", "-c", _python(source.text, assertions)], folder)
        if source.language == "typescript":
            script = f"import assert from 'node:assert/strict';\n{javascript(source)}\n{assertions}"
            return _run(["node", "--input-type=module", "-"], folder, script)
        program = f"{prelude}\n#define main the_program\n{source.text}\n#undef main\n"
        program += f"#include <assert.h>\nint main(void)\n{{\n{assertions}\nreturn 0;\n}}\n"
        return _compile(source.language, program, folder) or _run([f"{folder}/program"], folder)


def compiles(source: Source) -> str | None:
    """What the compiler says against it, or None; only C and C++ have one here."""
    if source.language not in _SUFFIXES or source.language in missing_tools():
        return None
    with tempfile.TemporaryDirectory() as folder:
        return _compile(source.language, source.text, folder, "-fsyntax-only")


def _compile(language: Language, program: str, folder: str, *flags: str) -> str | None:
    path = Path(folder) / f"program{_SUFFIXES[language]}"
    path.write_text(program)
    command = [_TOOLS[language], _STANDARDS[language], "-w", *flags, str(path)]
    return _run([*command, "-lm", "-o", f"{folder}/program"], folder)


def _run(command: list[str], folder: str, stdin: str = "") -> str | None:
    try:
        ran = subprocess.run(
            command, cwd=folder, input=stdin, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {_SECONDS} s"
    if ran.returncode == 0:
        return None
    said = [line for line in ran.stderr.splitlines() if line.strip()]
    telling = [line for line in said if "rror" in line or "assert" in line]
    return (telling or said or [f"exit {ran.returncode}"])[-1].strip()[:200]


def _python(text: str, assertions: str) -> str:
    return (
        "import ast, inspect, sys, types, typing\n"
        f"SOURCE = {text!r}\n"
        "module = types.ModuleType('edited')\n"
        "sys.modules['edited'] = module\n"
        "exec(compile(SOURCE, 'edited.py', 'exec'), module.__dict__)\n"
        "globals().update({k: v for k, v in vars(module).items() if not k.startswith('__')})\n"
        f"exec(compile({assertions!r}, 'assertions', 'exec'), globals())\n"
    )


# -- TypeScript without its types ----------------------------------------------------------------

_TYPES = {
    "type_annotation",
    "type_parameters",
    "type_arguments",
    "interface_declaration",
    "type_alias_declaration",
    "accessibility_modifier",
    "override_modifier",
    "implements_clause",
    "type_predicate_annotation",
    "asserts_annotation",
    "readonly",
    "abstract",
    "declare",
}


def javascript(source: Source) -> str:
    """The file with its types cut out, for a Node.js that does not strip them by itself."""
    raw = bytearray(source.text.encode())
    assignments: list[tuple[int, bytes]] = []
    for node in walk(source.tree.root_node):
        for start, end in _cuts(node):
            raw[start:end] = bytes(byte if byte == 10 else 32 for byte in raw[start:end])
        if node.type == "method_definition" and _called(node, "constructor"):
            assignments += _parameter_properties(node)
    for place, statement in sorted(assignments, reverse=True):
        raw[place:place] = statement
    return raw.decode()


def _cuts(node: Node) -> list[tuple[int, int]]:
    """The bytes of this node that are only types."""
    parent = node.parent.type if node.parent is not None else ""
    if node.type == "export_statement" and any(child.type in _TYPES for child in node.children):
        return [(node.start_byte, node.end_byte)]
    if node.type in _TYPES:
        return [(node.start_byte, node.end_byte)]
    if node.type == "?" and parent in {"optional_parameter", "public_field_definition"}:
        return [(node.start_byte, node.end_byte)]
    if node.type == "!" and parent == "non_null_expression":
        return [(node.start_byte, node.end_byte)]
    if node.type in {"as_expression", "satisfies_expression"}:
        return [(node.children[0].end_byte, node.end_byte)]
    return []


def _called(node: Node, name: str) -> bool:
    found = node.child_by_field_name("name")
    return found is not None and found.text == name.encode()


def _parameter_properties(constructor: Node) -> list[tuple[int, bytes]]:
    """``constructor(private x: T)`` declares a field and sets it."""
    parameters = constructor.child_by_field_name("parameters")
    body = constructor.child_by_field_name("body")
    if parameters is None or body is None:
        return []
    found = []
    for parameter in parameters.children:
        if any(c.type in {"accessibility_modifier", "readonly"} for c in parameter.children):
            pattern = parameter.child_by_field_name("pattern")
            name = (pattern.text or b"") if pattern is not None else b""
            found.append((body.start_byte + 1, b" this." + name + b" = " + name + b";"))
    return found
