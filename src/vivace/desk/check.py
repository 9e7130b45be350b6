"""One check from the paths a person names to the findings they are told of.

list     the files of these paths, as far as they are the project's own
scan     each of them, in several processes
narrow   to what is grave enough, not known already, and on lines that changed
mend     with the rules' own rewrites, if that is wanted, and look again
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct

from vivace.desk.applying import Accepted, try_to_write, write_all
from vivace.desk.mending import Mended, mend
from vivace.desk.rules import Choice, rule_set
from vivace.desk.scan import Scanned, scan_files, why_not_scanned
from vivace.findings.report import Located, Skipped, at_least
from vivace.syntax.finding import Finding, Severity
from vivace.syntax.languages import language_of
from vivace.workspace.changes import changes_since
from vivace.workspace.errors import PathRefused, WorkspaceError
from vivace.workspace.journal import Journal
from vivace.workspace.listing import list_files, shown_path
from vivace.workspace.paths import SafePath, Workspace, top_level

__all__ = ["Checked", "Checking", "Event", "Fixed", "Listed", "Settings", "base_of"]

_TITLE = "vivace check --fix"
_Lines = tuple[tuple[int, int], ...]
"""Parts of a file: the first line, from 0, and the one after the last."""
_EVERYWHERE: _Lines = ((0, sys.maxsize),)


class Settings(Struct, frozen=True, kw_only=True):
    """What is to be looked at, and what of it is to be told."""

    paths: tuple[Path, ...]
    cwd: Path
    jobs: int = 1
    severity: Severity = "note"
    """Lesser ones are not told."""
    changed: str | None = None
    """A commit: only findings on lines that are other than there."""
    known: frozenset[str] = frozenset()
    """Fingerprints of findings that are not told."""
    exclude: tuple[str, ...] = ()
    """Patterns of paths, or of folders above them, that are not looked at."""


class Listed(Struct, frozen=True):
    """So many files are going to be looked at."""

    files: int


class Checked(Struct, frozen=True):
    """What came of it."""

    found: tuple[Located, ...]
    """By path and place."""
    skipped: tuple[Skipped, ...]
    files: int
    lines: int
    known: frozenset[str]
    """The fingerprints of what was found, and not told because it is known."""
    languages: frozenset[str]
    """Of the files."""


class Fixed(Struct, frozen=True):
    """What the rules' own rewrites come to."""

    files: tuple[Mended, ...]
    skipped: tuple[Skipped, ...]
    """Files that have to stay as they are."""

    @property
    def edits(self) -> tuple[Accepted, ...]:
        return tuple(each.edit for each in self.files)

    @property
    def count(self) -> int:
        """Of the findings that are mended."""
        return sum(each.fixed for each in self.files)


Event = Listed | Scanned


def base_of(cwd: Path) -> Path:
    """What paths in a report are counted from: the work tree, or the current folder."""
    return top_level(cwd) or cwd.resolve()


class Checking:
    """A check with its settings; ``tell`` hears how far it is."""

    def __init__(
        self, settings: Settings, choice: Choice, tell: Callable[[Event], None] = lambda _: None
    ) -> None:
        self._settings = settings
        self._choice = choice
        self._tell = tell
        self._base = base_of(settings.cwd)
        self._files: dict[str, SafePath] = {}
        """Those that were looked at, by the names that reports have for them."""

    def run(self) -> Checked:
        """Look at everything."""
        listing = list_files(self._settings.paths, self._settings.cwd, why_not_scanned)
        left_out = [
            Skipped(shown_path(each.path, self._base), each.why) for each in listing.left_out
        ]
        lines = self._changed_lines(listing.files)
        files = [
            path
            for path in listing.files
            if (lines is None or path in lines) and not self._is_excluded(path)
        ]
        self._files = {shown_path(path.absolute, self._base): path for path in files}
        self._tell(Listed(len(files)))
        scanned = []
        for each in scan_files(files, self._base, self._choice, self._settings.jobs):
            scanned.append(each)
            self._tell(each)
        return self._narrowed(scanned, lines, left_out)

    def _is_excluded(self, path: SafePath) -> bool:
        """As git ignores: a pattern without a slash is a name at any depth."""
        name = shown_path(path.absolute, self._base)
        for pattern in (each.rstrip("/") for each in self._settings.exclude):
            if "/" not in pattern and any(fnmatchcase(part, pattern) for part in name.split("/")):
                return True
            if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*"):
                return True
        return False

    def _narrowed(
        self,
        scanned: Sequence[Scanned],
        lines: dict[SafePath, _Lines] | None,
        left_out: Iterable[Skipped],
    ) -> Checked:
        found = at_least(
            self._settings.severity,
            (
                located
                for each in scanned
                for located in each.found
                if lines is None or _touches(located, lines[self._files[each.path]])
            ),
        )
        known = self._settings.known
        told = [each for each in found if each.fingerprint not in known]
        skipped = [Skipped(each.path, each.skipped) for each in scanned if each.skipped is not None]
        return Checked(
            found=tuple(sorted(told, key=_place)),
            skipped=tuple(sorted([*left_out, *skipped], key=lambda each: each.path)),
            files=sum(each.skipped is None for each in scanned),
            lines=sum(each.lines for each in scanned),
            known=frozenset(each.fingerprint for each in found if each.fingerprint in known),
            languages=frozenset(
                language.name for name in self._files if (language := language_of(name))
            ),
        )

    def _changed_lines(self, files: Iterable[SafePath]) -> dict[SafePath, _Lines] | None:
        """Of each file that changed, which of its lines did; None where that does not matter."""
        if self._settings.changed is None:
            return None
        wanted = set(files)
        lines: dict[SafePath, _Lines] = {}
        for root in sorted({path.root for path in wanted}):
            changes = changes_since(Workspace(root), self._settings.changed)
            lines |= {each.path: each.added for each in changes.files if each.path in wanted}
            # What cannot be compared may have changed anywhere.
            left_out = (SafePath(root, tuple(each.path.split("/"))) for each in changes.left_out)
            lines |= {path: _EVERYWHERE for path in left_out if path in wanted}
        return lines

    # -- mending ----------------------------------------------------------------------------------

    def fixes(self, checked: Checked) -> Fixed:
        """What the rules' own rewrites would make of the files; nothing is written."""
        files, skipped = [], []
        for name in sorted({each.path for each in checked.found if each.finding.fix}):
            wanted = [each.finding for each in checked.found if each.path == name]
            try:
                mended = self._mended(self._files[name], wanted)
            except WorkspaceError as error:
                skipped.append(Skipped(name, str(error)))
                continue
            if mended.fixed:
                files.append(mended)
        return Fixed(tuple(files), tuple(skipped))

    def _mended(self, path: SafePath, wanted: Sequence[Finding]) -> Mended:
        named = [given for given in self._settings.paths if self._is(given, path)]
        writable = Workspace(path.root).resolve(path.absolute, allow=[path.absolute] * bool(named))
        if writable != path:
            raise PathRefused(f"{path} was not touched: something on the way to it is a link.")
        return mend(path, wanted, rule_set(self._choice))

    def _is(self, given: Path, path: SafePath) -> bool:
        return (self._settings.cwd / given.expanduser()).absolute() == path.absolute

    def write(self, fixed: Fixed, state: Path) -> Fixed:
        """Each work tree's edits as one entry of its journal, which ``vivace undo`` takes back;
        what was written. A file that cannot be is no reason to leave the others as they are."""
        fixed = self._writable(fixed)
        for root in sorted({edit.target.path.root for edit in fixed.edits}):
            edits = [edit for edit in fixed.edits if edit.target.path.root == root]
            write_all(Journal(Workspace(root), state), edits, _TITLE)
        return fixed

    def _writable(self, fixed: Fixed) -> Fixed:
        files, skipped = [], list(fixed.skipped)
        for each in fixed.files:
            path = each.edit.target.path
            try:
                try_to_write(each.edit)
            except WorkspaceError as error:
                skipped.append(Skipped(shown_path(path.absolute, self._base), str(error)))
            else:
                files.append(each)
        return Fixed(tuple(files), tuple(sorted(skipped, key=lambda each: each.path)))


def _touches(located: Located, lines: _Lines) -> bool:
    """Whether a finding stands on one of these lines; one about the whole file does."""
    if located.finding.lines is None:
        return True
    first, after = located.finding.lines
    return any(start < after and first < end for start, end in lines)


def _place(located: Located) -> tuple[str, tuple[int, int], tuple[int, int], str]:
    finding = located.finding
    return located.path, finding.lines or (-1, -1), finding.columns or (0, 0), finding.code
