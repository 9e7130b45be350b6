"""Edits by a plain prompt: the file, a search/replace, or the region, with nothing of Vivace's.

Each is a prompt as tools commonly write it and a reader that takes the answer at its word: code
blocks are put where they belong, with no more leniency than white space. Of two or three wordings
of each, these are the ones that the 0.5B model did best with on the first of the tuned tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.edit_runs.tasks import Task
from vivace.edits.placing.locate import choose
from vivace.edits.placing.region import Selection
from vivace.edits.rewrite import Rewrite
from vivace.protocol.items import Message
from vivace.syntax.lines import dedented, lines_of, margin_of
from vivace.syntax.source import Source

__all__ = ["Prompt", "Unfit", "region", "replaced", "rewrite", "search_replace", "selected"]

_FENCED = re.compile(r"^```[^\n]*\n(.*?)(?:^```|\Z)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(
    r"^<{5,9} ?SEARCH[^\n]*\n(.*?)^={5,9}[ \t]*\n(.*?)^>{5,9} ?REPLACE", re.DOTALL | re.MULTILINE
)


class Unfit(Exception):
    """An answer that cannot be applied; the message is for the model."""

    def __init__(self, message: str, code: str = "unfit") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Prompt:
    """What is asked, and how the answer becomes a new text of the file."""

    items: tuple[Message, ...]
    prediction: str
    """The old text, which drafts are made from."""
    apply: Callable[[str], str]
    """The answer in, the new file out; raises ``Unfit``."""
    watch: Callable[[str], object]
    """Deltas in; true once a change could be shown."""
    again: str
    """What a second try is asked for."""
    region: Selection | None = None
    """The lines that alone are shown."""


# -- the whole file -------------------------------------------------------------------------------

_FILE_RULES = (
    "You edit code. Answer with the whole file after the change, in one code block, and nothing "
    "else. Change only what is asked for and copy every other line exactly, comments too. Never "
    "leave lines out."
)


def rewrite(task: Task) -> Prompt:
    """The file, the instruction, and the whole file back."""
    return Prompt(
        items=_messages(_FILE_RULES, f"{_shown(task)}\n\n{_asked(task)}"),
        prediction=task.text,
        apply=lambda answer: _ended(code_of(answer), task.text),
        watch=Rewrite(task.text).feed,
        again="Answer again with the whole file after the change, in one code block.",
    )


def _messages(rules: str, asked: str) -> tuple[Message, ...]:
    return Message(role="system", content=rules), Message(role="user", content=asked)


def code_of(answer: str) -> str:
    """The longest code block of the answer, or all of it."""
    return max(_FENCED.findall(answer), key=len, default=answer)


def _ended(text: str, before: str) -> str:
    """With the end of the file as it was."""
    return text.rstrip("\n") + "\n" if before.endswith("\n") else text


def _shown(task: Task) -> str:
    return f"{task.path}:\n\n```{task.language}\n{task.text}```"


def _asked(task: Task) -> str:
    if (lines := selected(task)) is None:
        return task.instruction
    first, end = lines
    code = "".join(lines_of(task.text)[first:end])
    about = f"line {end}" if end == first + 1 else f"lines {first + 1} to {end}"
    return f"{task.instruction}\n\nThis is about {about}:\n\n```\n{code}```"


def selected(task: Task) -> Selection | None:
    """The selected lines, or that of the cursor."""
    if task.selection is not None:
        return task.selection[0] - 1, task.selection[1]
    return None if task.cursor is None else (task.cursor[0] - 1, task.cursor[0])


# -- search/replace blocks ------------------------------------------------------------------------

_RULES = """\
Act as an expert software developer. Describe each change with a SEARCH/REPLACE block:

<<<<<<< SEARCH
lines as they stand in the file
=======
lines to put in their place
>>>>>>> REPLACE

The SEARCH section must match lines of the file exactly, character for character, with all \
comments and indentation, and must stand in the file only once. Keep blocks short: only the lines \
that change and a few around them. Answer with the blocks and nothing else."""

_EXAMPLE_ASKED = """\
greeting.py:

```python
import sys


def greet(name):
    print("hello " + name)


greet(sys.argv[1])
```

Use an f-string in greet."""

_EXAMPLE_ANSWER = """\
<<<<<<< SEARCH
    print("hello " + name)
=======
    print(f"hello {name}")
>>>>>>> REPLACE"""


def search_replace(task: Task) -> Prompt:
    """The file and the instruction, and only the changed lines back."""
    said: list[str] = []

    def watch(delta: str) -> bool:
        said.append(delta)
        return _BLOCK.search("".join(said)) is not None

    return Prompt(
        items=(
            Message(role="system", content=_RULES),
            Message(role="user", content=_EXAMPLE_ASKED),
            Message(role="assistant", content=_EXAMPLE_ANSWER),
            Message(role="user", content=f"{_shown(task)}\n\n{_asked(task)}"),
        ),
        prediction=task.text,
        apply=lambda answer: replaced(task.text, answer),
        watch=watch,
        again="Answer again with all SEARCH/REPLACE blocks.",
    )


def replaced(text: str, answer: str) -> str:
    """The file with all blocks of the answer applied, one after the other."""
    blocks = _BLOCK.findall(answer)
    if not blocks:
        raise Unfit("Your answer has no SEARCH/REPLACE block.")
    for old, new in blocks:
        text = _replaced_once(text, lines_of(old), lines_of(new))
    return text


def _replaced_once(text: str, old: list[str], new: list[str]) -> str:
    if not any(line.strip() for line in old):
        raise Unfit("A SEARCH section is empty.")
    lines = lines_of(text)
    for key in (_whole, str.rstrip, str.strip):
        places = _places(map(key, lines), [key(line) for line in old])
        if len(places) > 1:
            raise Unfit(f"A SEARCH section stands in the file {len(places)} times.")
        if places:
            start, end = places[0], places[0] + len(old)
            new = _reindented(new, margin_of(old), margin_of(lines[start:end]))
            return "".join([*lines[:start], *new, *lines[end:]])
    raise Unfit(f"The file has no lines that match this SEARCH section:\n{''.join(old)}")


def _whole(line: str) -> str:
    return line.rstrip("\n")


def _places(keys: Iterable[str], sought: list[str]) -> list[int]:
    known = list(keys)
    last = len(known) - len(sought) + 1
    return [at for at in range(last) if known[at : at + len(sought)] == sought]


def _reindented(lines: list[str], margin: str, wanted: str) -> list[str]:
    """For blocks whose lines all have too much space before them, or too little."""
    if margin == wanted:
        return lines
    return [wanted + line.removeprefix(margin) if line.strip() else line for line in lines]


# -- the region -----------------------------------------------------------------------------------

_REGION_RULES = (
    "You edit code. Answer with the given lines after the change, in one code block, and nothing "
    "else. Change only what is asked for and copy every other line exactly."
)


def region(task: Task) -> Prompt:
    """The likeliest lines that Vivace would show, found in the same way, and those lines back."""
    source = Source.of(task.path, task.text)
    found = choose(source, task.instruction, selected(task), task.path).regions[0]
    old = source.lines[found.start : found.end]
    margin = margin_of(old)
    code = "".join(dedented(line, margin) for line in old)
    shown = f"```{task.language}\n{code}```"
    place = f"Lines {found.start + 1} to {found.end} of {task.path}"

    def apply(answer: str) -> str:
        new = lines_of(_ended(code_of(answer), "".join(old)))
        new = _reindented(new, margin_of(new), margin)
        return "".join([*source.lines[: found.start], *new, *source.lines[found.end :]])

    return Prompt(
        items=_messages(_REGION_RULES, f"{place}:\n\n{shown}\n\n{task.instruction}"),
        prediction=code,
        apply=apply,
        watch=Rewrite("".join(old)).feed,
        again="Answer again with these lines after the change, in one code block.",
        region=(found.start, found.end),
    )
