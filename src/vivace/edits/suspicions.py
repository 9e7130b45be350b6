"""What makes an edit suspicious: things that may be meant, and that a small model does by mistake.

A definition, a return value or a statement is lost, a name is bound nowhere, a module is imported
that nobody has. What the person named is not suspicious, in whatever language they said it; no verb
is looked for. The person decides, and where nobody can be asked the edit stops here.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from vivace.edits.constants import named_values, undefined
from vivace.edits.importing.imports import sources
from vivace.edits.importing.names import newly_unbound
from vivace.edits.importing.project import Modules
from vivace.edits.importing.standard import standard
from vivace.edits.importing.unbound import bound_nowhere
from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.placing.region import Region, regions
from vivace.edits.placing.words import parts_of, words_in
from vivace.edits.relevance import about, alike, said_by
from vivace.edits.settle import about_comments
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk
from vivace.syntax.languages import SCRIPTS, row_after
from vivace.syntax.source import Source

__all__ = ["Edit", "suspicions"]

_WORD = re.compile(r"\w+")
_IDENTIFIERS = frozenset(
    {"identifier", "property_identifier", "field_identifier", "type_identifier"}
)
_MUCH = 0.4
"""So large a part of what was shown does not vanish unless it is named."""
_RENAMED = 0.75
"""How alike a definition is to what it was under another name."""
_LEAVES = frozenset({"yield", "yield_expression", "raise_statement", "throw_statement"})
"""Other ways for a function to give something back than to return it."""


class Edit:
    """Hunks that make ``after`` of ``before``, and what they were asked for."""

    def __init__(
        self,
        *,
        before: Source,
        after: Source,
        hunks: Sequence[Hunk],
        shown: Excerpt,
        instruction: str,
        modules: Modules | None = None,
    ) -> None:
        self.before, self.after, self.hunks = before, after, hunks
        self.shown, self.instruction, self.modules = shown, instruction, modules

    @property
    def added(self) -> list[str]:
        return [line for hunk in self.hunks for line in hunk.new]

    @property
    def rows(self) -> Iterator[tuple[int, int]]:
        """The lines of ``after`` that the hunks brought, each from the first up to the second."""
        moved = 0
        for hunk in self.hunks:
            if hunk.new:
                yield hunk.start + moved, hunk.start + moved + len(hunk.new)
            moved += len(hunk.new) - len(hunk.old)

    @cached_property
    def said(self) -> frozenset[str]:
        """The words of the instruction, by their parts."""
        return said_by(self.instruction, self.before.text)

    @cached_property
    def _words(self) -> set[str]:
        return set(words_in(self.instruction))

    @cached_property
    def lost(self) -> list[Region]:
        """Definitions that are there no more. Methods of a class that was renamed still are."""
        after = {each.name for each in self.after.definitions}
        kept = after | {name.rpartition(".")[2] for name in after}
        return [
            each
            for each in regions(self.before)
            if {each.name, each.name.rpartition(".")[2]}.isdisjoint(kept)
        ]

    @cached_property
    def meant(self) -> list[Region]:
        """Those of them that the person wants to go."""
        return [each for each in self.lost if self._may_lose(each)]

    @cached_property
    def new(self) -> list[Region]:
        before = {each.name for each in self.before.definitions}
        return [each for each in regions(self.after) if each.name not in before]

    def _may_lose(self, each: Region) -> bool:
        """Whether the instruction names it, and nothing stands there that it should have become."""
        if not self._names(each.name):
            return False
        old = self.before.part(each.start, each.end)
        become = [
            new for new in self.new if alike(old, self.after.part(new.start, new.end), _RENAMED)
        ]
        # A name that something else has already is no other name for this.
        taken = set(words_in(self.before.text))
        return not self.new or any(new.name.rpartition(".")[2] not in taken for new in become)

    def _names(self, name: str) -> bool:
        """Whether the instruction names this definition, or what it is in."""
        return any(part in self._words for part in name.split("."))


def suspicions(edit: Edit) -> Iterator[Finding]:
    for check in _CHECKS:
        yield from check(edit)


def _found(code: str, person: str, model: str, hunk: Hunk | None = None) -> Finding:
    lines = (hunk.start, hunk.end) if hunk else None
    return Finding(code, person, model, severity="warning", lines=lines)


def _lost(edit: Edit) -> Iterator[Finding]:
    """Definitions that went though nobody named them, or though they are still used."""
    uses = _uses_after(edit) if edit.meant else {}
    for each in edit.lost:
        used = uses.get(each.name.rpartition(".")[2])
        if each not in edit.meant:
            yield _found(
                "lost",
                f"The edit would remove `{each.name}`, which was not asked for.",
                f"You removed `{each.name}`. Keep it.",
            )
        elif used is not None:
            yield _found(
                "lost",
                f"The edit would remove `{each.name}`, which line {used + 1} still uses.",
                f"`{each.name}` is still used. Change its uses too.",
            )


def _uses_after(edit: Edit) -> dict[str, int]:
    """The names in the file, and the first line of each."""
    found: dict[str, int] = {}
    for node in edit.after.nodes(_IDENTIFIERS):
        found.setdefault((node.text or b"").decode("utf-8", "replace"), node.start_point.row)
    return found


def _returns(edit: Edit) -> Iterator[Finding]:
    """A function that gave something back and gives nothing back any more."""
    if edit.before.language is None:
        return
    touched = {
        each.name
        for each in edit.before.definitions
        if any(hunk.start < each.end and each.start <= hunk.end for hunk in edit.hunks)
    }
    after = _returning(edit.after, touched, _LEAVES)
    said = "return" in edit.said
    for name, returning in _returning(edit.before, touched).items():
        if returning and not after.get(name, True) and not said:
            yield _found(
                "returns",
                f"The edit would let `{name}` return nothing any more.",
                f"`{name}` must still return what it returned.",
            )


def _returning(
    source: Source, names: Container[str], others: frozenset[str] = frozenset()
) -> dict[str, bool]:
    """Which of these functions have a return statement with a value, or one of the others; those of
    one name count as one."""
    found: dict[str, bool] = {}
    for each in source.definitions:
        if each.kind == "function" and each.name in names:
            leaving = source.nodes({"return_statement"} | _LEAVES, (each.start, each.end))
            returns = any(
                (node.named_child_count if node.type == "return_statement" else node.type in others)
                and each.start <= node.start_point.row < each.end
                for node in leaving
            )
            found[each.name] = found.get(each.name, False) or returns
    return found


def _dropped(edit: Edit) -> Iterator[Finding]:
    """Statements that are gone with all they did: an attribute that is no longer set, a call that
    is no longer made, a parameter that is no longer used."""
    if edit.before.language is None:
        return
    come = set(_WORD.findall("".join(edit.added)))
    stay = _words_that_stay(edit)
    for hunk in edit.hunks:
        for row in range(hunk.start, hunk.end):
            line = edit.before.lines[row]
            if any(each.start <= row < each.end for each in edit.meant) or about(line, edit.said):
                continue
            names = list(_names_on(edit.before, row))
            gone = [each for each in names if each.name not in come]
            lost = [each for each in gone if each.acts or each.name in stay]
            if lost and len(gone) == len(names):
                text = line.strip()[:60]
                yield _found(
                    "dropped",
                    f"The edit would drop a statement that it was not asked about: {text}",
                    f"This line must stay: {text}",
                    hunk,
                )
                return


class _Name(Struct, frozen=True):
    name: str
    acts: bool
    """Whether it is called, or belongs to something that others know of."""


def _names_on(source: Source, row: int) -> Iterator[_Name]:
    line = source.lines[row].encode("utf-8", "surrogatepass")
    for node in source.nodes(_IDENTIFIERS, (row, row + 1)):
        start, end = node.start_point, node.end_point
        if start.row == row == end.row:
            before, after = line[: start.column].rstrip(), line[end.column :].lstrip()
            acts = before.endswith((b".", b"->", b"::")) or after.startswith(b"(")
            yield _Name((node.text or b"").decode("utf-8", "replace"), acts)


def _words_that_stay(edit: Edit) -> Counter[str]:
    """The words of what was shown that the edit leaves where they are."""
    gone = Counter(_WORD.findall("".join(line for hunk in edit.hunks for line in hunk.old)))
    return Counter(_WORD.findall(edit.shown.text)) - gone


def _unused(edit: Edit) -> Iterator[Finding]:
    """A helper that was taken out of a function and is not called in its place, or a constant for a
    value of the file that nothing reads."""
    defined = [each.name.rpartition(".")[2] for each in edit.new]
    if len(edit.after.definitions) <= len(edit.before.definitions):
        defined = []
    words = Counter(_WORD.findall(edit.after.text))
    for name in (*defined, *named_values(edit.before, edit.added)):
        said = edit.said.intersection(parts_of(name)) or name.startswith("__")
        if words[name] == 1 and not said:
            yield _found(
                "unused",
                f"The edit would define `{name}` and never use it.",
                f"You defined `{name}` but nothing uses it. Use it where its value or code was.",
            )


def _vanished(edit: Edit) -> Iterator[Finding]:
    """Many lines that are gone, and that nothing stands for: a loop that became a call does not
    count, nor does what stands elsewhere now."""
    size = sum(bool(line.strip()) for line in edit.shown.text.splitlines())
    gone = -sum(map(len, edit.meant))
    out: Counter[str] = Counter()
    back: Counter[str] = Counter()
    for hunk in edit.hunks:
        old, new = set(_WORD.findall("".join(hunk.old))), set(_WORD.findall("".join(hunk.new)))
        went, came = _filled(hunk.old), _filled(hunk.new)
        if old.isdisjoint(new):
            gone += went.total() - came.total()
            out += went
        else:
            back += came - went
    gone -= (out & back).total()
    if gone > max(5, _MUCH * size):
        yield _found(
            "vanished",
            f"The edit would remove {gone} of {size} lines, which was not asked for.",
            "You left out lines that must stay. Copy every line that does not have to change.",
        )


def _filled(lines: Sequence[str]) -> Counter[str]:
    """Those that hold something, without their margin."""
    return Counter(filter(None, map(str.strip, lines)))


def _beside(edit: Edit) -> Iterator[Finding]:
    """Tests alone are changed, or what comments say, and nobody spoke of that."""
    known = regions(edit.before)
    tests = [each for each in known if each.is_test]
    if "test" not in edit.said and 2 * len(tests) < len(known) and _all_within(edit, tests):
        yield _found(
            "beside",
            "The edit would change nothing but tests, which were not spoken of.",
            "You changed only the tests. Change the code.",
        )
    remarks = [
        each
        for each in _remarks(edit.before)
        if any(each.start <= hunk.start <= each.end for hunk in edit.hunks)
    ]
    if about_comments(edit.instruction) or not _all_within(edit, remarks) or _brings_code(edit):
        return
    texts = (edit.before.part(each.start, each.end) for each in remarks)
    if not about("".join((*edit.added, *texts)), edit.said):
        yield _found(
            "beside",
            "The edit would change nothing but what a comment says, which was not spoken of.",
            "You changed only a comment. Change the code.",
        )


def _brings_code(edit: Edit) -> bool:
    """Whether something comes that is no comment: one that is taken for code again, too."""
    remarks = {row for each in _remarks(edit.after) for row in range(each.start, each.end)}
    come = {row for rows in edit.rows for row in range(*rows) if edit.after.lines[row].strip()}
    return not come <= remarks


def _all_within(edit: Edit, places: Sequence[Region]) -> bool:
    return all(
        any(
            each.start < max(hunk.end, hunk.start + 1) <= each.end and each.start <= hunk.start
            for each in places
        )
        for hunk in edit.hunks
    )


def _remarks(source: Source) -> list[Region]:
    """Comments and docstrings that have their lines to themselves."""
    if source.language is None:
        return []
    found: list[Region] = []
    for node in source.nodes(source.language.leading | {"expression_statement"}):
        start = node.start_point
        alone = not source.lines[start.row].encode()[: start.column].strip()
        string = [child.type for child in node.named_children] == ["string"]
        if alone and (string or node.type != "expression_statement"):
            found.append(Region(start.row, row_after(node)))
    return found


def _passed_over(edit: Edit) -> Iterator[Finding]:
    """A number that was named, and stands in the code, but not where it is changed."""
    touched = _WORD.findall("".join(line for hunk in edit.hunks for line in (*hunk.old, *hunk.new)))
    numbers = {word for word in words_in(edit.instruction) if word.isdecimal() and len(word) > 2}
    there = numbers.intersection(words_in(edit.shown.text))
    if there and numbers.isdisjoint(touched):
        yield _found(
            "passed_over",
            f"The edit would change nothing where {min(there)} stands, which was spoken of.",
            f"You did not change the line with {min(there)}.",
        )


def _unbound(edit: Edit) -> Iterator[Finding]:
    if edit.after.is_in("python"):
        names = sorted(newly_unbound(edit.before, edit.after))
    else:
        names = [*bound_nowhere(edit.before, edit.after, edit.modules), *_constants(edit)]
    if names:
        listed = ", ".join(f"`{name}`" for name in names)
        yield _found(
            "unbound",
            f"The edit would use {listed}, which is defined nowhere.",
            f"You use {listed}, which is defined nowhere. Define or import it, or do without.",
        )


def _constants(edit: Edit) -> list[str]:
    """Constants that are defined nowhere; in C a header may have them that nobody sees."""
    if edit.after.is_in("c") or edit.after.is_in("cpp"):
        return []
    homes = edit.modules.project.homes if edit.modules is not None else {}
    return [each for each in undefined(edit.before, edit.after, edit.hunks) if each not in homes]


def _foreign(edit: Edit) -> Iterator[Finding]:
    """Imports from elsewhere than the standard library, the project and what it depends on, the
    file's own sources and what was said: a model makes up modules, and a small edit brings no new
    dependency."""
    come = {source for rows in edit.rows for source in sources(edit.after, rows)}
    if not come:
        return
    before = sources(edit.before)
    known = {_root(source) for source in before} | set(_WORD.findall(edit.instruction))
    for source in sorted(come - before):
        there = source.startswith(("<", "node:")) or _root(source) in _packages(edit.after)
        said = not known.isdisjoint({_root(source), *_WORD.findall(source)[-1:]})
        ours = edit.modules is not None and edit.modules.has(source)
        if not there and not said and not ours:
            yield _found(
                "foreign",
                f"The edit would import from `{source}`, which the file does not use.",
                f"Do not import from `{source}`. Do without it.",
            )


def _packages(source: Source) -> Container[str]:
    """Those that are there wherever the language is; in C, angle brackets say so."""
    if source.is_in(*SCRIPTS):
        return standard("javascript").modules
    return sys.stdlib_module_names if source.is_in("python") else ()


def _root(source: str) -> str:
    """The package of a module; a path in the project stands for itself."""
    return source if source.startswith(".") else re.split(r"[./]", source, maxsplit=1)[0]


_CHECKS: tuple[Callable[[Edit], Iterator[Finding]], ...] = (
    _unbound,
    _foreign,
    _lost,
    _returns,
    _dropped,
    _unused,
    _vanished,
    _beside,
    _passed_over,
)
