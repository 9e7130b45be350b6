"""Renames by the language's own server: all files at once, and only with all doubts looked into."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from vivace.desk.asking import Made
from vivace.desk.events import Asked, Ended
from vivace.desk.person import Person
from vivace.desk.targets import Target
from vivace.edits.attempt import EditPlan, Outcome, Task
from vivace.edits.diff import between
from vivace.edits.importing.project import FAMILIES
from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.placing.locate import rename_scope
from vivace.edits.placing.region import whole_file
from vivace.edits.renaming.renames import Doubt, judged, names_to_look_for
from vivace.edits.renaming.review import Pointed, against, pointed_at, position_of, unexplained
from vivace.errors import EditError
from vivace.syntax.finding import Finding
from vivace.syntax.languages import SCRIPTS, language_of
from vivace.syntax.source import Source
from vivace.workspace.document import read
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.ignore import ignored, why_not_read
from vivace.workspace.language_server import LanguageServer, ServerFailed, running
from vivace.workspace.language_servers import server_for
from vivace.workspace.mentions import files_with, words_elsewhere
from vivace.workspace.paths import Workspace
from vivace.workspace.server_answers import Place, apply_edits, read_edits, read_places

__all__ = ["renamed_by_server"]

_FILES = 200
"""A name that more files have is too common to look into each of them."""
_QUESTIONS = 100


async def renamed_by_server(
    workspace: Workspace, target: Target, instruction: str, person: Person
) -> list[Made] | None:
    """The edits of all files that a rename concerns, with what speaks against them; None where no
    server is needed, installed, or able to do it."""
    source = Source.of(str(target.path), target.text)
    rows = rename_scope(source, instruction, target.selection).span
    names = names_to_look_for(source, instruction)
    if not names or source.language is None:
        return None
    found = judged(source, *rows, instruction, words_elsewhere(target.path, names))
    server = server_for(source.language.name, workspace.root)
    pointed = pointed_at(source, rows, instruction)
    if not isinstance(found, Doubt) or not found.by_types or server is None or pointed is None:
        return None
    began = time.perf_counter()
    try:
        files = _concerned(workspace, target, pointed.old)
        async with person.waiting(None), running(server, workspace.root) as asked:
            work = _Rename(asked, files, target, pointed)
            texts, doubt = await work.made(position_of(source, pointed.node))
    except (ServerFailed, WorkspaceError, EditError):
        return None
    for name in texts.keys() - {str(target.path)}:
        workspace.resolve(name)  # raises Protected; the target was named
    edits = list(_edits(files, texts, doubt, instruction))
    for made in edits:
        person.tell(Asked(made.plan, server.name))
        person.tell(Ended(made.outcome.hunks, server.name, time.perf_counter() - began))
    seconds = time.perf_counter() - began
    return [_named(made, server.name, seconds) for made in edits]


def _named(made: Made, name: str, seconds: float) -> Made:
    return Made(made.target, made.plan, made.outcome, name, None, seconds, tokens=0)


def _concerned(workspace: Workspace, target: Target, old: str) -> dict[str, Target]:
    """The files of the language that have the name, by their paths from the root."""
    found = files_with(workspace.root, old)
    if found is None or len(found) > _FILES:
        raise WorkspaceError("Too many files have the name.")
    first = language_of(str(target.path))
    files = {str(target.path): target}
    for name in found:
        language = language_of(name)
        if name in files or language is None or first is None:
            continue
        if language is first or language.name in FAMILIES.get(first.name, ()):
            # To be read: a protected one is not changed.
            files[name] = Target(read(workspace.resolve(name, allow=[name])))
    return files


class _Rename:
    def __init__(
        self,
        server: LanguageServer,
        files: Mapping[str, Target],
        target: Target,
        pointed: Pointed,
    ) -> None:
        self._server = server
        self._files = files
        self._target = target
        self._pointed = pointed
        self._asked = 0

    async def made(self, position: tuple[int, int]) -> tuple[dict[str, str], str | None]:
        """The changed texts by their paths, and what speaks against them."""
        for each in self._files.values():
            language = language_of(str(each.path))
            name = language.name if language is not None else ""
            await self._server.open(each.path.absolute, name, each.text)
        await self._server.has_read()
        place = self._place(self._target, position)
        await self._server.ask("textDocument/prepareRename", place)
        answer = await self._server.ask(
            "textDocument/rename", place | {"newName": self._pointed.new}
        )
        texts = dict(self._texts(answer))
        if str(self._target.path) not in texts:
            raise ServerFailed(f"{self._server.name} renames nothing there.")
        return texts, await self._doubt(texts)

    def _place(self, target: Target, position: tuple[int, int]) -> dict[str, Any]:
        row, column = position
        return {
            "textDocument": {"uri": target.path.absolute.as_uri()},
            "position": {"line": row, "character": column},
        }

    def _texts(self, answer: Any) -> Iterator[tuple[str, str]]:
        by_path = {each.path.absolute: name for name, each in self._files.items()}
        for path, edits in read_edits(answer).items():
            name = by_path.get(path)
            if name is None:
                raise ServerFailed(f"{path.name} would change, which has not the name.")
            yield name, apply_edits(self._files[name].text, edits)

    async def _doubt(self, texts: Mapping[str, str]) -> str | None:
        afters = {
            name: Source.of(name, texts.get(name, each.text)) for name, each in self._files.items()
        }
        for name, after in afters.items():
            why = against(self._pointed, Source.of(name, self._files[name].text), after)
            if why is not None:
                return f"in {name}, {why}"
        for name, text in texts.items():
            await self._server.change(self._files[name].path.absolute, text)
        for name, after in afters.items():
            for site in unexplained(self._pointed, after):
                if not await self._is_other(name, after, position_of(after, site.node), afters):
                    line = site.node.start_point.row + 1
                    return f"`{self._pointed.old}` in line {line} of {name} may be the same"
        return None

    async def _is_other(
        self, name: str, after: Source, position: tuple[int, int], afters: Mapping[str, Source]
    ) -> bool:
        """Whether the server knows what stands there, and that it is something else."""
        self._asked += 1
        if self._asked > _QUESTIONS:
            return False
        place = self._place(self._files[name], position)
        answer = await self._server.ask("textDocument/definition", place)
        places = list(read_places(answer))
        by_path = {each.path.absolute: each_name for each_name, each in self._files.items()}
        for each in places:
            known = afters.get(by_path.get(each.path, ""))
            here = (by_path.get(each.path), each.line, each.character) == (name, *position)
            if here and after.is_in(*SCRIPTS):
                continue  # another object's own
            if here or (known is not None and not _has(known, each, self._pointed.old)):
                return False
        return bool(places)


def _has(source: Source, place: Place, word: str) -> bool:
    line = source.lines[place.line] if place.line < len(source.lines) else ""
    rest = line.encode("utf-16-le", "surrogatepass")[2 * place.character :]
    return rest.decode("utf-16-le", "replace").startswith(word)


def _edits(
    files: Mapping[str, Target], texts: Mapping[str, str], doubt: str | None, instruction: str
) -> Iterator[Made]:
    problems: tuple[Finding, ...] = ()
    if doubt is not None:
        why = f"This rename may break code, so it is not applied unseen: {doubt}."
        problems = (Finding("rename", why, f"Mind that {doubt}.", "warning"),)
    for name, text in texts.items():
        target = files[name]
        if text == target.text:
            continue
        if (why_not := why_not_read(target.path, target.document.data)) or ignored([target.path]):
            raise WorkspaceError(why_not or f"{name} is ignored.")
        source = Source.of(name, target.text)
        plan = EditPlan(
            task=Task(name, target.text, instruction),
            source=source,
            shown=Excerpt(source, [whole_file(source)]),
            format="region",
            items=(),
            prediction="",
            known="",
        )
        outcome = Outcome(
            hunks=tuple(between(target.text, text)), text=text, problems=problems, answer=""
        )
        yield Made(target, plan, outcome, "", None, 0.0, tokens=0)
