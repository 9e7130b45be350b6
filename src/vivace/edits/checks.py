"""What is wrong with an edit before anybody sees it.

Each problem is said twice: to the person, who may have to decide, and to the model, which gets
another try. A check that cannot be sure says nothing.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence

from msgspec import Struct

from vivace.edits import renames
from vivace.edits.constants import only_constants
from vivace.edits.imports import only_imports, sources
from vivace.edits.names import new_error, newly_unbound
from vivace.edits.region import Region, regions
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk
from vivace.syntax.source import Source

__all__ = ["problems"]

_TAKES_OUT = re.compile(
    r"\b(remov|delet|drop|renam|extract|inlin|mov|replac|convert|split|merg|simplif|shorten|"
    r"collapse|dedup|refactor|clean|rewrite|turn|unus|dead|instead|get rid|combine|strip)",
    re.IGNORECASE,
)
_TAKES_DEFINITIONS = re.compile(
    r"\b(remov|delet|drop|renam|inlin|mov|merg|combin|replac|dedup|get rid|unus|dead|clean)",
    re.IGNORECASE,
)
_EXTRACTS = re.compile(r"\b(extract|factor out|helper|(?:and|then) (?:use|call) it)", re.IGNORECASE)
_STANDS_FOR_CODE = re.compile(
    r"(?:\.\.\.|…).*\b(?:rest|existing|unchanged|remain\w*|same|other|previous|omitted|as before|"
    r"code|implementation|methods?|functions?|here)\b|"
    r"\b(?:existing|unchanged|remaining|previous|original) (?:code|methods?|functions?|lines?|"
    r"implementation|logic)\b|"
    r"\brest of (?:the |this |your )?(?:\w+ )?(?:code|function|file|class|method|implementation|"
    r"body|logic)\b|"
    r"\b(?:remains?|stays?|is|are) (?:unchanged|the same)\b",
    re.IGNORECASE,
)
_EVERYWHERE = re.compile(
    r"\b(everywhere|throughout|in the whole file|all (?:uses|usages|calls|occurrences))\b",
    re.IGNORECASE,
)
_GIVES_BACK = re.compile(
    r"\b(return|yield|generator|rais|throw|print|stub|void|nothing|callback|property|in place|"
    r"async|promise|await|lambda|arrow|expression)",
    re.IGNORECASE,
)
"""What an instruction says that may rightly cost a function its return value."""
_WORD = re.compile(r"\w+")
_TELLING = re.compile(r"(?<=`)\w+(?=`)|\b(?:\d{2,}|\w+_\w+|[A-Z]{3,}|[a-z]+[A-Z]\w*)\b")
"""Words of an instruction that can only be taken from code."""
_COMMENT = re.compile(r"\s*(?:#|//|/\*|\*|--|<!--|\"\"\")")
_ALONE = frozenset({"...", "…", "# ...", "// ...", "# …", "// …"})
_MUCH = 0.4
"""So large a part of a region does not vanish unless it is asked for."""
_SCRIPT_MODULES = (
    "assert buffer child_process crypto events fs http https net os path process querystring "
    "readline stream timers url util worker_threads zlib"
)
_STANDARD = {"python": sys.stdlib_module_names} | dict.fromkeys(
    ("javascript", "typescript", "tsx"), frozenset(_SCRIPT_MODULES.split())
)
"""Packages that are there wherever the language is; in C, angle brackets say so."""
_OVERLOADS = frozenset({"cpp", "java", "typescript", "tsx", "rust"})


class _Edit(Struct, frozen=True, kw_only=True):
    before: Source
    after: Source
    hunks: Sequence[Hunk]
    region: Region
    instruction: str

    @property
    def added(self) -> list[str]:
        return [line for hunk in self.hunks for line in hunk.new]

    @property
    def removed(self) -> list[str]:
        return [line for hunk in self.hunks for line in hunk.old]


def problems(
    before: Source, after: Source, hunks: Sequence[Hunk], region: Region, instruction: str
) -> list[Finding]:
    """What speaks against hunks that make ``after`` of ``before``; the most telling first."""
    if not hunks:
        return [
            Finding(
                "unchanged",
                "The model changed nothing.",
                "You returned the code unchanged. Make the change that was asked for.",
            )
        ]
    edit = _Edit(
        before=before,
        after=after,
        hunks=hunks,
        region=region,
        instruction=instruction,
    )
    return [problem for check in _CHECKS for problem in check(edit)]


def _emptied(edit: _Edit) -> Iterator[Finding]:
    had = bool(edit.before.part(edit.region.start, edit.region.end).strip())
    growth = sum(len(hunk.new) - len(hunk.old) for hunk in edit.hunks)
    if had and len(edit.region) + growth <= 0 and not _TAKES_OUT.search(edit.instruction):
        yield Finding(
            "empty",
            "The model answered with no code.",
            "Your answer had no code. Answer with the whole code after the change.",
        )


def _outside(edit: _Edit) -> Iterator[Finding]:
    for hunk in edit.hunks:
        inside = edit.region.start <= hunk.start and hunk.end <= edit.region.end
        language = edit.before.language
        imports = not hunk.old and language and only_imports(hunk.new, language)
        constants = not hunk.old and only_constants(hunk.new)
        if not inside and not imports and not constants:
            yield Finding(
                "outside",
                f"The edit would change line {hunk.start + 1}, which was not asked for.",
                "Change only the code you were shown.",
            )


def _elsewhere(edit: _Edit) -> Iterator[Finding]:
    """What is to be changed everywhere is named; lines that do not hold it are none of it."""
    if edit.region.kind != "file" or not _EVERYWHERE.search(edit.instruction):
        return
    names = set(_TELLING.findall(edit.instruction)) & set(_WORD.findall(edit.before.text))
    for line in edit.removed if names else ():
        if line.strip() and not names & set(_WORD.findall(line)):
            text = line.strip()[:60]
            yield Finding(
                "elsewhere",
                f"The edit would change a line that has nothing to do with it: {text}",
                f"This line must stay as it is: {text}",
            )
            return


def _placeholders(edit: _Edit) -> Iterator[Finding]:
    known = {line.strip() for line in edit.before.lines}
    for hunk in edit.hunks:
        gone = sum(bool(line.strip()) for line in hunk.old)
        for line in hunk.new:
            bare = line.strip()
            alone = bare in _ALONE and gone > len(hunk.new)
            said = gone and _COMMENT.match(line) and _STANDS_FOR_CODE.search(line)
            if bare not in known and (alone or said):
                yield Finding(
                    "placeholder",
                    f"The model left code out and wrote '{bare[:60]}' for it.",
                    f"You left code out: '{bare[:60]}'. Write out every line.",
                )
                return


def _syntax(edit: _Edit) -> Iterator[Finding]:
    wrong = edit.after.errors
    line: int | None = None
    if wrong and len(wrong) > len(edit.before.errors):
        line = wrong[0]
    elif edit.after.is_in("python"):
        line = new_error(edit.before, edit.after)
    if line is None:
        return
    lines = edit.after.lines
    text = lines[line].strip()[:60] if line < len(lines) else ""
    yield Finding(
        "syntax",
        f"The edit would break the syntax near line {line + 1}: {text}",
        f"Your code has a syntax error near this line: {text}",
    )


def _unbound(edit: _Edit) -> Iterator[Finding]:
    if not edit.after.is_in("python"):
        return
    if names := sorted(newly_unbound(edit.before, edit.after)):
        listed = ", ".join(f"`{name}`" for name in names)
        yield Finding(
            "unbound",
            f"The edit would use {listed}, which is defined nowhere.",
            f"You use {listed}, which is defined nowhere. Define or import it, or do without.",
        )


def _foreign(edit: _Edit) -> Iterator[Finding]:
    """Imports from elsewhere than the standard library, the file's own sources and what was said:
    a model makes up modules, and a small edit brings no new dependency."""
    language = edit.before.language
    standard = _STANDARD.get(language.name, frozenset()) if language else frozenset()
    before = sources(edit.before)
    known = {_root(source) for source in before} | set(_WORD.findall(edit.instruction))
    for source in sorted(sources(edit.after) - before):
        there = source.startswith(("<", "node:")) or _root(source) in standard
        said = not known.isdisjoint({_root(source), *_WORD.findall(source)[-1:]})
        if not there and not said:
            yield Finding(
                "foreign",
                f"The edit would import from `{source}`, which the file does not use.",
                f"Do not import from `{source}`. Do without it.",
            )


def _root(source: str) -> str:
    """The package of a module; a path in the project stands for itself."""
    return source if source.startswith(".") else re.split(r"[./]", source, maxsplit=1)[0]


def _lost(edit: _Edit) -> Iterator[Finding]:
    after = {each.name for each in edit.after.definitions}
    before = regions(edit.before)
    lost = [each.name for each in before if each.name not in after]
    if _TAKES_DEFINITIONS.search(edit.instruction):
        # Methods of a class that was renamed are still there.
        kept = {name.rpartition(".")[2] for name in after}
        own = ((name, name.rpartition(".")[2]) for name in lost)
        unnamed = [name for name, last in own if last not in edit.instruction and last not in kept]
        held = sum(edit.region.contains(each) for each in before)
        strict = renames.asked(edit.instruction) is not None
        lost = unnamed if strict or len(unnamed) * 2 > held else []
    if lost:
        names = ", ".join(f"`{name}`" for name in lost)
        yield Finding(
            "lost",
            f"The edit would remove {names}, which was not asked for.",
            f"You removed {names}. Keep it.",
        )


def _returns(edit: _Edit) -> Iterator[Finding]:
    """A function that gave something back and gives nothing back any more."""
    if edit.before.language is None or _GIVES_BACK.search(edit.instruction):
        return
    touched = {
        each.name
        for each in edit.before.definitions
        if any(hunk.start < each.end and each.start <= hunk.end for hunk in edit.hunks)
    }
    after = _returning(edit.after, touched)
    for name, returning in _returning(edit.before, touched).items():
        if returning and not after.get(name, True):
            yield Finding(
                "returns",
                f"The edit would let `{name}` return nothing any more.",
                f"`{name}` must still return what it returned.",
            )


def _returning(source: Source, names: Container[str]) -> dict[str, bool]:
    """Which of these functions have a return statement with a value; those of one name count as
    one."""
    found: dict[str, bool] = {}
    for each in source.definitions:
        if each.kind == "function" and each.name in names:
            returned = source.nodes({"return_statement"}, (each.start, each.end))
            returns = any(
                node.named_child_count and each.start <= node.start_point.row < each.end
                for node in returned
            )
            found[each.name] = found.get(each.name, False) or returns
    return found


def _unused(edit: _Edit) -> Iterator[Finding]:
    """A helper that was taken out of a function and is not called in its place."""
    if not _EXTRACTS.search(edit.instruction):
        return
    before = {each.name for each in edit.before.definitions}
    words = Counter(_WORD.findall(edit.after.text))
    for each in edit.after.definitions:
        name = each.name.rpartition(".")[2]
        if each.name not in before and words[name] == 1:
            yield Finding(
                "unused",
                f"The edit would define `{name}` and never use it.",
                f"You defined `{name}` but nothing calls it. Call it where its code was.",
            )


def _twice(edit: _Edit) -> Iterator[Finding]:
    before = Counter(_undecorated(edit.before))
    after = Counter(_undecorated(edit.after))
    for (name, head), count in after.items():
        if count > max(1, before[name, head]):
            yield Finding(
                "twice",
                f"The edit would define `{name}` twice.",
                f"You define `{name}` twice. Return it only once.",
            )


def _undecorated(source: Source) -> Iterator[tuple[str, str]]:
    """Names of definitions, and their heads where those may share a name; a property and its
    setter share theirs rightly."""
    lines = source.lines
    for each in source.definitions:
        if lines[each.start].lstrip().startswith(("@", "#")):
            continue
        head = ""
        if source.is_in(*_OVERLOADS):
            rows = lines[each.start : each.end]
            code = "".join(row for row in rows if not _COMMENT.match(row))
            head = " ".join(code.partition("{")[0].split())
        yield each.name, head


def _vanished(edit: _Edit) -> Iterator[Finding]:
    lines = edit.before.lines[edit.region.start : edit.region.end]
    size = sum(bool(line.strip()) for line in lines)
    gone = sum(bool(line.strip()) for line in edit.removed)
    come = sum(bool(line.strip()) for line in edit.added)
    if gone - come > max(5, _MUCH * size) and not _TAKES_OUT.search(edit.instruction):
        yield Finding(
            "vanished",
            f"The edit would remove {gone - come} of {size} lines, which was not asked for.",
            "You left out lines that must stay. Copy every line that does not have to change.",
        )


def _indentation(edit: _Edit) -> Iterator[Finding]:
    ours = {line[0] for line in edit.before.lines if line[:1] in (" ", "\t") and line.strip()}
    theirs = {line[0] for line in edit.added if line[:1] in (" ", "\t") and line.strip()}
    if len(ours) == 1 and theirs - ours:
        kind = "spaces" if " " in ours else "tabs"
        yield Finding(
            "indentation",
            f"The file is indented with {kind}, the edit is not.",
            f"Indent with {kind}, as the code does.",
        )


def _line_ends(edit: _Edit) -> Iterator[Finding]:
    ours = {line.endswith("\r\n") for line in edit.before.lines if line.endswith("\n")}
    theirs = {line.endswith("\r\n") for line in edit.added if line.endswith("\n")}
    if len(ours) == 1 and theirs - ours:
        yield Finding(
            "line_ends",
            "The edit would mix line endings.",
            "Keep the line endings of the file.",
        )


_CHECKS: tuple[Callable[[_Edit], Iterator[Finding]], ...] = (
    _emptied,
    _outside,
    _elsewhere,
    _placeholders,
    _syntax,
    _unbound,
    _foreign,
    _lost,
    _returns,
    _unused,
    _twice,
    _vanished,
    _indentation,
    _line_ends,
)
