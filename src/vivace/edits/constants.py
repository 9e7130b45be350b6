"""A constant that an edit introduces is defined at the top of the file.

A small model that is shown one function either forgets to define the name it puts in the place of a
number, or defines it inside the function. Both can be put right without asking again: what the name
replaced is its value.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

from tree_sitter import Node

from vivace.edits.diff import changes
from vivace.syntax.hunk import Hunk
from vivace.syntax.languages import Language, row_after
from vivace.syntax.lines import line_end
from vivace.syntax.source import Source

__all__ = ["hoisted", "named_values", "only_constants", "undefined"]

_ASKED = re.compile(
    r"\b(constants?|macros?|magic (?:number|string|value)s?)\b|#define", re.IGNORECASE
)
_MACRO = re.compile(r"\bmacros?\b|#define", re.IGNORECASE)
_CONSTANT = re.compile(r"_*[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_TOKEN = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\d[\w.]*|[^\W\d]\w*|\S")
_LITERAL = re.compile(r"-?\d[\w.]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_OF_OBJECT = re.compile(r"(?:\.|->|::)([A-Z][A-Z0-9_]*)")
_FORMS = {
    "python": "{name} = {value}",
    "javascript": "const {name} = {value};",
    "typescript": "const {name} = {value};",
    "tsx": "const {name} = {value};",
    "c": "#define {name} {value}",
    "cpp": "constexpr auto {name} = {value};",
    "go": "const {name} = {value}",
}
_DEFINITION = re.compile(
    r"\s*(?:(?:(?:export|static|private|public|readonly|final|const|constexpr|let|var|auto|unsigned|"
    r"int|long|double|float|char|size_t|std::size_t|std::string_view)\b[ *]*)*"
    r"(?P<name>_*[A-Z][A-Z0-9_]*)(?:\s*:\s*[\w.\[\]]+)?(?:\[\])?\s*=\s*(?P<value>[^=;].*?)\s*;?|"
    r"#\s*define\s+(?P<macro>[A-Z][A-Z0-9_]*)\s+(?P<text>\S.*?))\s*"
)
_MACROS = (
    "BUFSIZ CHAR_BIT CLOCKS_PER_SEC EOF EXIT_FAILURE EXIT_SUCCESS FILENAME_MAX INT8_MAX INT16_MAX "
    "INT32_MAX INT64_MAX INT_MAX INT_MIN IOV_MAX LONG_MAX LONG_MIN M_E M_PI NAME_MAX NULL PATH_MAX "
    "RAND_MAX SIZE_MAX STDERR_FILENO STDIN_FILENO STDOUT_FILENO UCHAR_MAX UINT8_MAX UINT16_MAX "
    "UINT32_MAX UINT64_MAX UINT_MAX ULONG_MAX USHRT_MAX"
)
_OF_HEADERS = frozenset(_MACROS.split())
"""What the headers of C define instead of plain numbers."""
_BINDING = (
    r"#\s*define\s+{name}\b|\b{name}\b(?:\s*:[^=\n]+)?(?:\[\w*\])?\s*(?:=(?!=)|\()"
    r"|^\s*{name}\s*,\s*$|\b(?:import|use|using|from)\b.*\b{name}\b"
)
"""What may give a name its meaning: a definition, a line of an enumeration or of imports."""


def hoisted(
    source: Source, hunks: Sequence[Hunk], instruction: str, elsewhere: Container[str] = ()
) -> list[Hunk]:
    """The hunks with the constants that are new in them defined at the top of the file, where one
    is asked for, or the value that a name takes the place of is spoken of. ``elsewhere`` are names
    that other files have."""
    language = source.language
    if language is None or language.name not in _FORMS:
        return list(hunks)
    said = None if _ASKED.search(instruction) else set(_TOKEN.findall(instruction))
    known = set(_TOKEN.findall(source.text))
    if language.name in ("c", "cpp"):
        known |= _OF_HEADERS
    # What is asked of an object stays with its class.
    known |= {name for hunk in hunks for line in hunk.new for name in _OF_OBJECT.findall(line)}
    # What stands at the top already stays there.
    first = _first_definition(source, language)
    known |= {token for hunk in hunks if hunk.start <= first for token in _defined(hunk.new)}
    values: dict[str, str] = {}
    kept: list[Hunk] = []
    for hunk in hunks:
        new = [line for line in hunk.new if not _taken_out(line, known, values, said)]
        if len(new) < len(hunk.new):
            hunk = Hunk(hunk.start, hunk.old, _without_gap(hunk, new))
        if hunk.old != hunk.new:
            kept.append(hunk)
    for name, value in _replaced(kept, known).items():
        if (said is None or value in said) and name not in elsewhere:
            values.setdefault(name, value)
    used = {token for hunk in kept for line in hunk.new for token in _TOKEN.findall(line)}
    lines = [
        _definition(name, value, language, macro=bool(_MACRO.search(instruction)))
        for name, value in values.items()
        if name in used
    ]
    top = _at_the_top(source, lines, language)
    if any(hunk.start < put.start < hunk.end for hunk in kept for put in top):
        return list(hunks)
    return sorted([*top, *kept], key=lambda hunk: hunk.start)


def undefined(before: Source, after: Source, hunks: Sequence[Hunk]) -> list[str]:
    """Names that an edit puts in the place of literals, and that the file does not define."""
    known = set(_TOKEN.findall(before.text))
    return [
        name
        for name in _replaced(hunks, known)
        if not re.search(_BINDING.format(name=name), after.text, re.MULTILINE)
    ]


def named_values(before: Source, lines: Sequence[str]) -> list[str]:
    """The new constants in these lines whose value stands in the file already."""
    known = set(_TOKEN.findall(before.text))
    values: dict[str, str] = {}
    for line in lines:
        _taken_out(line.rstrip("\r\n"), known, values, known)
    return list(values)


def only_constants(lines: Sequence[str]) -> bool:
    """Whether there are definitions of constants in these lines, and nothing else."""
    filled = [line for line in lines if line.strip()]
    return bool(filled) and all(_DEFINITION.fullmatch(line) for line in filled)


def _first_definition(source: Source, language: Language) -> int:
    rows = [node.start_point.row for node in source.top if not _is_heading(node, language)]
    return min(rows, default=0)


def _defined(lines: Sequence[str]) -> list[str]:
    """The constants that these lines define outside everything."""
    found = (_DEFINITION.fullmatch(line) for line in lines if not line[:1].isspace())
    return [each["name"] or each["macro"] for each in found if each]


def _taken_out(
    line: str, known: set[str], values: dict[str, str], said: Container[str] | None
) -> bool:
    """Whether the line defines a constant that is new in the file; its value is remembered."""
    found = _DEFINITION.fullmatch(line)
    if found is None:
        return False
    name, value = found["name"] or found["macro"], found["value"] or found["text"]
    if name in known or not _LITERAL.fullmatch(value) or not (said is None or value in said):
        return False
    values[name] = value
    return True


def _without_gap(hunk: Hunk, new: Sequence[str]) -> tuple[str, ...]:
    """No empty lines stay behind where a definition stood."""
    lines = list(new)
    while lines and not lines[0].strip() and (not hunk.old or hunk.old[0].strip()):
        del lines[0]
    return tuple(lines)


def _replaced(hunks: Sequence[Hunk], known: set[str]) -> dict[str, str]:
    """New constants that stand where a literal stood, each always for the same one."""
    found: dict[str, set[str]] = {}
    for hunk in hunks:
        old = [token for line in hunk.old for token in _TOKEN.findall(line)]
        new = [token for line in hunk.new for token in _TOKEN.findall(line)]
        for a, b, c, d in changes(old, new):
            value, name = "".join(old[a:b]), "".join(new[c:d])
            if name not in known and _CONSTANT.fullmatch(name) and _LITERAL.fullmatch(value):
                found.setdefault(name, set()).add(value)
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _definition(name: str, value: str, language: Language, *, macro: bool) -> str:
    form = _FORMS["c"] if macro and language.name == "cpp" else _FORMS[language.name]
    return form.format(name=name, value=value)


def _at_the_top(source: Source, new: Sequence[str], language: Language) -> list[Hunk]:
    """Behind the imports, or behind the comment that the file begins with."""
    if not new:
        return []
    lines = source.lines
    end = line_end(lines)
    place = _place(source, language)
    put = [line + end for line in new]
    if place:
        put.insert(0, end)
    if place < len(lines) and (not place or lines[place].strip()):
        put.append(end)
    return [Hunk(place, (), tuple(put))]


def _place(source: Source, language: Language) -> int:
    lines = source.lines
    place = 0
    for node in source.top:
        if not _is_heading(node, language):
            break
        end = row_after(node)
        # A comment directly above a definition belongs to it.
        if node.type in language.imports or end >= len(lines) or not lines[end].strip():
            place = end
    return place


def _is_heading(node: Node, language: Language) -> bool:
    """Imports, comments, and the docstring of a module."""
    if node.type == "expression_statement":
        return [child.type for child in node.named_children] == ["string"]
    return node.type in language.imports or node.type in language.leading
