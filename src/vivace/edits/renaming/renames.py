"""Renames that need no model: those of which the scopes of the file prove every place.

What cannot be proven is given up with a reason. A model, or the language's own server, is asked
then, and what comes back is held against what is known: no use may be left, nothing else renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from msgspec import Struct
from tree_sitter import Node

from vivace.edits.renaming.private_members import is_private, renamed_member
from vivace.edits.renaming.proof_rules import BY_LANGUAGE
from vivace.edits.renaming.proofs import Case, Change, Doubtful, applied, prove
from vivace.edits.renaming.scopes import Binding, Names, names_in
from vivace.syntax.definitions import Definition
from vivace.syntax.finding import Finding
from vivace.syntax.languages import walk
from vivace.syntax.source import Source

__all__ = ["Doubt", "Proven", "Rename", "asked", "judged", "names_to_look_for", "wrong"]

_NOUNS = (
    ("variable local constant", "variable parameter"),
    ("parameter param argument", "parameter"),
    ("function", "function method variable"),
    ("class struct type interface enum", "type"),
    ("method", "method"),
    ("field property attribute", "field"),
    ("member", "field method"),
)
_KINDS = {noun: frozenset(kinds.split()) for nouns, kinds in _NOUNS for noun in nouns.split()}
"""What may be meant by the noun before a name."""

_NAME = r"`?(#?[A-Za-z_$][\w$]*)`?"
_HEAD = r"(?:please )?rename (?:the |its |this |these )?(?:local )?(?:(\w+) )??"
_SCOPE = (
    r"(?: (?:in|inside|of|within) (?:the )?(?:function |method |class )?"
    r"(?!(?:this|the|whole|entire|file|module|all)\b)`?([A-Za-z_$][\w$.]*)`?(?:\(\))?)?"
)
_REST = r"(?![\w`$])([^`]*)"
_ONE = re.compile(rf"{_HEAD}{_NAME}{_SCOPE} (?:to|into|as) {_NAME}{_SCOPE}{_REST}", re.IGNORECASE)
_TWO = re.compile(
    rf"{_HEAD}{_NAME} and {_NAME}{_SCOPE} (?:to|into|as) {_NAME} and {_NAME}{_SCOPE}{_REST}",
    re.IGNORECASE,
)
_NO_MORE = re.compile(
    r"(?:\W|\b(?:and|also|with|update|adjust|change|fix|adapt|all|every|each|any|its|the|their|of|"
    r"to|it|that|use|uses|usage|usages|call|calls|caller|callers|reference|references|occurrence|"
    r"occurrences|everywhere|in|this|whole|file|module|throughout|too|as|well|place|places|where|"
    r"is|used|called|accordingly|including|wherever)\b)*",
    re.IGNORECASE,
)
_ARROW = re.compile(rf"(?:(\w+):)?\W*{_NAME} ?(?:->|=>|→|⟶) ?{_NAME}\W*")
_VERB = r"(?:umbenenn|benenn|renomm|renombr|renome|rinomin|hernoem)\w*"
"""The verb, in the languages that have one of their own; in any other, ``x -> y`` is understood."""
_AROUND = r"((?:[^\W\d_]+ ){0,2}?)"
"""An article and a noun."""
_FORMS = tuple(
    re.compile(rf"{form}\W*", re.IGNORECASE)
    for form in (
        rf"{_VERB} {_AROUND}{_NAME} \w{{1,4}} {_NAME}(?: um)?",
        rf"{_AROUND}{_NAME} {_VERB} \w{{1,4}} {_NAME}",
        rf"{_AROUND}{_NAME} \w{{1,4}} {_NAME} {_VERB}",
    )
)


class Rename(Struct, frozen=True):
    names: tuple[tuple[str, str], ...]
    """Old and new."""
    noun: str = ""
    """What the old ones are called, if anything: ``variable``, ``method`` …"""
    scope: str = ""
    """The definition in which they are to be renamed, if one is named."""


class Proven(Struct, frozen=True):
    text: str
    """The file after the rename."""
    rows: tuple[int, int]
    """The first line that changes, and the line after the last."""


class Doubt(Struct, frozen=True):
    why: str
    """What speaks against doing it unseen; no full stop."""
    by_types: bool = False
    """Whether one who knows the types and the other files could do it: a language server."""


# -- what is asked --------------------------------------------------------------------------------


def asked(instruction: str) -> Rename | None:
    """The rename that an instruction asks for, if it asks for nothing else."""
    text = instruction.strip()
    if found := _TWO.fullmatch(text):
        noun, old, other, scope, new, another, after, rest = found.groups()
        names: tuple[tuple[str, str], ...] = ((old, new), (other, another))
    elif found := _ONE.fullmatch(text):
        noun, old, scope, new, after, rest = found.groups()
        names = ((old, new),)
    else:
        return _otherwise(text)
    if not _NO_MORE.fullmatch(rest):
        return None
    return Rename(names, _singular(noun or ""), (scope or after or "").rstrip("."))


def _otherwise(text: str) -> Rename | None:
    """``x -> y``, and the forms of other languages. An arrow to a type is no rename but what a
    function returns."""
    if found := _ARROW.fullmatch(text):
        scope, old, new = found.groups(default="")
        alike = old[:1].isupper() == new[:1].isupper()
        return Rename(((old, new),), scope=scope) if alike else None
    for form in _FORMS:
        if found := form.fullmatch(text):
            noun, old, new = found.groups()
            return Rename(((old, new),), noun.strip())
    return None


def _singular(noun: str) -> str:
    noun = noun.lower()
    return noun if noun in _KINDS else noun.removesuffix("s")


def names_to_look_for(source: Source, instruction: str) -> set[str]:
    """Names of which a proof has to know whether other files have them: those that are renamed, and
    the functions whose parameters they may be."""
    rename = asked(instruction)
    if rename is None or source.language is None:
        return set()
    old = {name for name, _ in rename.names}
    around = {
        each.name.rpartition(".")[2]
        for each in source.definitions
        if each.kind == "function" and any(_has(source, each, name) for name in old)
    }
    return old | around


def _has(source: Source, definition: Definition, name: str) -> bool:
    part = source.part(definition.start, definition.end)
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", part) is not None


# -- the proof ------------------------------------------------------------------------------------


def judged(
    source: Source,
    start: int,
    end: int,
    instruction: str,
    elsewhere: frozenset[str] | None = None,
) -> Proven | Doubt | None:
    """The file after a rename of what is declared from line ``start`` up to ``end``, or why that is
    not certain; None where no rename is asked for.

    ``elsewhere`` are words that other files have, where they were looked at: a name that is not
    among them is used in this file only.
    """
    rename = asked(instruction)
    if rename is None:
        return None
    if source.language is None or source.errors:
        return Doubt("the code cannot be read")
    words = rename.noun.split() if rename.noun not in _KINDS else []
    if any(names_in(source, word).bindings for word in words):
        return Doubt("it is not certain which of the names is meant")
    try:
        changes = [
            change
            for old, new in rename.names
            for change in _changes(source, (start, end), (old, new), rename.noun, elsewhere)
        ]
        text = applied(source, changes)
    except Doubtful as doubt:
        return Doubt(str(doubt), doubt.by_types)
    raw = source.text.encode("utf-8", "surrogatepass")
    rows = [raw.count(b"\n", 0, first) for first, _, _ in changes]
    return Proven(text, (min(rows), max(rows) + 1))


def _changes(
    source: Source,
    rows: tuple[int, int],
    names: tuple[str, str],
    noun: str,
    elsewhere: frozenset[str] | None,
) -> list[Change]:
    old, new = names
    if is_private(source, old):
        return renamed_member(source, old, new)
    if old == new or "#" in new:
        raise Doubtful(f"`{new}` is no new name for it")
    found = names_in(source, old)
    binding = _chosen(found, rows, old, noun)
    case = Case(source=source, old=old, new=new, names=found, binding=binding, elsewhere=elsewhere)
    prove(case, BY_LANGUAGE[case.language])
    return list(case.changes.values())


def _chosen(found: Names, rows: tuple[int, int], old: str, noun: str) -> Binding:
    """What is meant: the outermost thing of that name which is declared in these lines."""
    there = [
        each
        for each in found.bindings
        if any(rows[0] <= node.start_point.row < rows[1] for node in each.declarations)
    ]
    kinds = _KINDS.get(noun)
    fitting = [each for each in there if kinds is None or each.kind in kinds]
    members = any(site.role == "member" for site in found.sites)
    if not fitting and (members or there):
        raise Doubtful(f"of which object `{old}` is, only the types can tell", by_types=True)
    if not fitting:
        why = "is a macro or comes from elsewhere" if found.sites else "is not there"
        raise Doubtful(f"`{old}` {why}")
    outermost = [
        each for each in fitting if all(other is each or _within(other, each) for other in fitting)
    ]
    if len(outermost) == 1:
        return outermost[0]
    owners = {each.scope.parent.type for each in fitting if each.scope.parent is not None}
    classes = {each.scope.type for each in fitting} == {"class_definition"}
    if classes or (owners and owners <= {"impl_item", "trait_item"}):
        raise Doubtful(f"of which object `{old}` is, only the types can tell", by_types=True)
    raise Doubtful(f"`{old}` is the name of several things there")


def _within(inner: Binding, outer: Binding) -> bool:
    one, other = inner.scope, outer.scope
    if one.type == "block" and inner.reach == "after" and one.parent == other:
        return False  # Rust's function declares the name of its parameter anew
    return one != other and other.start_byte <= one.start_byte and one.end_byte <= other.end_byte


# -- what a model made of it ----------------------------------------------------------------------


def wrong(
    before: Source,
    after: Source,
    rows: tuple[int, int],
    instruction: str,
    elsewhere: frozenset[str] | None = None,
) -> Iterator[Finding]:
    """What is wrong, or cannot be known to be right, with a rename that was not proven."""
    found = judged(before, *rows, instruction, elsewhere)
    if isinstance(found, Doubt):
        yield Finding(
            "rename",
            f"This rename may break code, so it is not applied unseen: {found.why}.",
            f"Rename every use of it and nothing else. Mind that {found.why}.",
            "warning",
        )
        return
    if found is None or found.text == after.text:
        return
    right = Source(found.text, before.language)
    for line in _differing(right, after):
        yield Finding(
            "rename",
            f"The rename leaves out a use, or changes something else, in line {line + 1}.",
            f"Line {line + 1} is wrong. It must be: {_line(right, line)}",
            lines=(line, line + 1),
        )
        return


def _differing(right: Source, after: Source) -> Iterator[int]:
    """The lines in which the code of two texts differs, comments aside."""
    ours, theirs = list(_tokens(right)), list(_tokens(after))
    matcher = SequenceMatcher(
        None, [text for text, _ in ours], [text for text, _ in theirs], autojunk=False
    )
    for tag, first, _, _, _ in matcher.get_opcodes():
        if tag != "equal" and ours:
            yield ours[min(first, len(ours) - 1)][1]


def _tokens(source: Source) -> Iterator[tuple[bytes, int]]:
    for node in walk(source.tree.root_node):
        if not node.child_count and not _is_comment(node):
            yield node.text or b"", node.start_point.row


def _is_comment(node: Node) -> bool:
    return node.type.endswith("comment") or node.type in ("\n", "")


def _line(source: Source, at: int) -> str:
    return source.lines[at].strip()[:80] if at < len(source.lines) else ""
