"""What is wrong with an edit before anybody sees it.

Invalid is what cannot be meant: it does not parse though the file did, leaves code out, or changes
what was not shown. It is never applied. What may be meant, but is not likely to, is in
``suspicions``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from vivace.edits.constants import only_constants
from vivace.edits.importing.imports import only_imports
from vivace.edits.importing.names import new_error
from vivace.edits.importing.project import Modules
from vivace.edits.indentation import indent_of
from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.suspicions import Edit, suspicions
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk
from vivace.syntax.source import Source

__all__ = ["breaks", "broken", "problems"]

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
_COMMENT = re.compile(r"\s*(?:#|//|/\*|\*|--|<!--|\"\"\")")
_ALONE = frozenset({"...", "…", "# ...", "// ...", "# …", "// …"})
_OVERLOADS = frozenset({"cpp", "java", "typescript", "tsx", "rust"})


def problems(
    before: Source,
    after: Source,
    hunks: Sequence[Hunk],
    shown: Excerpt,
    instruction: str,
    modules: Modules | None = None,
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
    edit = Edit(
        before=before,
        after=after,
        hunks=hunks,
        shown=shown,
        instruction=instruction,
        modules=modules,
    )
    invalid = [problem for check in _CHECKS for problem in check(edit)]
    return invalid or list(suspicions(edit))


def _emptied(edit: Edit) -> Iterator[Finding]:
    """An answer without code says nothing, even where something is to be removed."""
    had = bool(edit.shown.text.strip())
    growth = sum(len(hunk.new) - len(hunk.old) for hunk in edit.hunks)
    if had and len(edit.shown) + growth <= 0:
        yield Finding(
            "empty",
            "The model answered with no code.",
            "Your answer had no code. Answer with the whole code after the change.",
        )


def _outside(edit: Edit) -> Iterator[Finding]:
    for hunk in edit.hunks:
        inside = edit.shown.holds(hunk.start, hunk.end)
        language = edit.before.language
        imports = not hunk.old and language and only_imports(hunk.new, language)
        constants = not hunk.old and only_constants(hunk.new)
        if not inside and not imports and not constants:
            yield Finding(
                "outside",
                f"The edit would change line {hunk.start + 1}, which was not asked for.",
                "Change only the code you were shown.",
            )


def _placeholders(edit: Edit) -> Iterator[Finding]:
    for hunk in edit.hunks:
        gone = sum(bool(line.strip()) for line in hunk.old)
        for line in hunk.new:
            bare = line.strip()
            alone = bare in _ALONE and gone > len(hunk.new)
            said = gone and _COMMENT.match(line) and _STANDS_FOR_CODE.search(line)
            if (alone or said) and not any(bare == old.strip() for old in edit.before.lines):
                yield Finding(
                    "placeholder",
                    f"The model left code out and wrote '{bare[:60]}' for it.",
                    f"You left code out: '{bare[:60]}'. Write out every line.",
                )
                return


def breaks(before: Source, after: Source) -> int | None:
    """The line on which a text no longer parses, though the one before it did."""
    wrong = after.errors
    if wrong and len(wrong) > len(before.errors):
        return wrong[0]
    return new_error(before, after) if after.is_in("python") else None


def broken(before: Source, after: Source) -> list[Finding]:
    """That a text no longer parses, if so."""
    line = breaks(before, after)
    if line is None:
        return []
    lines = after.lines
    text = lines[line].strip()[:60] if line < len(lines) else ""
    return [
        Finding(
            "syntax",
            f"The edit would break the syntax near line {line + 1}: {text}",
            f"Your code has a syntax error near this line: {text}",
        )
    ]


def _syntax(edit: Edit) -> Iterator[Finding]:
    yield from broken(edit.before, edit.after)


def _twice(edit: Edit) -> Iterator[Finding]:
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


def _indentation(edit: Edit) -> Iterator[Finding]:
    theirs = _margins(edit.added)
    ours = _margins(edit.before.lines) if theirs else set()
    if len(ours) == 1 and theirs - ours:
        kind = "spaces" if " " in ours else "tabs"
        yield Finding(
            "indentation",
            f"The file is indented with {kind}, the edit is not.",
            f"Indent with {kind}, as the code does.",
        )


def _margins(lines: Sequence[str]) -> set[str]:
    """What they are indented with; one space at the end only sets something below another."""
    filled = (indent_of(line) for line in lines if not line.isspace())
    return {
        each for indent in filled for each in (indent if "  " in indent else indent.rstrip(" "))
    }


def _line_ends(edit: Edit) -> Iterator[Finding]:
    text = edit.before.text
    lines, long = text.count("\n"), text.count("\r\n")
    theirs = {line.endswith("\r\n") for line in edit.added if line.endswith("\n")}
    if lines and long in (0, lines) and theirs - {long > 0}:
        yield Finding(
            "line_ends",
            "The edit would mix line endings.",
            "Keep the line endings of the file.",
        )


_CHECKS: tuple[Callable[[Edit], Iterator[Finding]], ...] = (
    _emptied,
    _outside,
    _placeholders,
    _syntax,
    _twice,
    _indentation,
    _line_ends,
)
