"""What changed in a work tree since a commit: the files, their lines, and what no model may read.

git is asked for the difference, so that renames, line ends and attributes are what it takes them
for; files that it does not track yet are new in all their lines. What it ignores is left out. A
file that looks like a secret, or whose old lines do, is told of with the reason, so that rules may
look at it and no model does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of
from vivace.syntax.unified import FileDiff, read_diff
from vivace.workspace.document import Document, read
from vivace.workspace.errors import GitFailed, WorkspaceError
from vivace.workspace.git import run_git
from vivace.workspace.ignore import ignored, secret_content, secret_name
from vivace.workspace.paths import SafePath, Workspace, top_level

__all__ = ["Changed", "Changes", "LeftOut", "changes_since"]

_DIFF = (
    *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--unified=0"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=all", "--no-relative"),
)
"""Whatever the person or the repository has set, it is written so that it can be read, and nothing
else is started."""
_BOM = "\ufeff"


@dataclass(frozen=True)
class Changed:
    """A file as it is now, and what of it is new."""

    path: SafePath
    text: str
    """Every line ends in ``\\n``."""
    hunks: tuple[Hunk, ...]
    """In the lines of the old text, ended alike."""
    hidden: str | None = None
    """Why no model may read it."""

    @property
    def added(self) -> tuple[tuple[int, int], ...]:
        """The lines that are new or other: the first, from 0, and the one after the last."""
        return FileDiff(None, str(self.path), self.hunks).added


@dataclass(frozen=True)
class LeftOut:
    """A file that changed and cannot be looked at."""

    path: str
    why: str


@dataclass(frozen=True)
class Changes:
    files: tuple[Changed, ...]
    left_out: tuple[LeftOut, ...] = ()


def changes_since(workspace: Workspace, revision: str = "HEAD") -> Changes:
    """All that is other in the work tree than in a commit; ``main...`` is where this branch left
    ``main``, as git has it. Raises GitFailed with what to do."""
    root = workspace.root
    if top_level(root) != root:
        raise GitFailed(
            f"{root} is in no git work tree, so nobody knows what changed. Go to one, or look at "
            "the files as they are: vivace check."
        )
    said = run_git(root, *_DIFF, _base(root, revision), "--")
    diffs = [each for each in read_diff(said.decode("utf-8", "surrogateescape")) if each.new]
    listed = run_git(root, "ls-files", "--others", "--exclude-standard", "-z")
    untracked = [name for name in os.fsdecode(listed).split("\0") if name]
    found = [*_readable(workspace, diffs), *_new(workspace, untracked)]
    files = [file for file in found if isinstance(file, Changed)]
    not_ours = ignored(file.path for file in files)
    kept = [file for file in files if file.path not in not_ours]
    return Changes(
        tuple(sorted(kept, key=lambda file: str(file.path))),
        tuple(file for file in found if isinstance(file, LeftOut)),
    )


def _base(root: Path, revision: str) -> str:
    """The commit to compare with, or the empty tree where there is none yet."""
    left, dots, right = revision.partition("...")
    if ".." in left or (dots and right not in ("", "HEAD")):
        raise GitFailed(
            f"{revision} names two commits, and what is reviewed is the work tree. Name the older "
            "one; 'main...' compares with where this branch left main."
        )
    commit = _commit(root, left or "HEAD")
    if commit is None and left in ("", "HEAD"):
        return run_git(root, "hash-object", "-t", "tree", "--stdin").decode().strip()
    if commit is None:
        raise GitFailed(
            f"There is no commit {left} here. Name a branch, a tag or a commit that 'git log' "
            "shows; one of another clone has to be fetched first (git fetch)."
        )
    if not dots:
        return commit
    found = run_git(root, "merge-base", commit, "HEAD", accept=(0, 1)).decode().split()
    if not found:
        raise GitFailed(
            f"{left} and this branch have no commit in common. Leave the dots out to compare with "
            f"{left} itself; a clone that is not deep enough is completed by git fetch --unshallow."
        )
    return found[0]


def _commit(root: Path, name: str) -> str | None:
    if name.startswith("-") or not name.isprintable():
        return None
    asked = ("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}")
    return run_git(root, *asked, accept=(0, 1, 128)).decode().strip() or None


def _readable(workspace: Workspace, diffs: Sequence[FileDiff]) -> Iterator[Changed | LeftOut]:
    for diff in diffs:
        assert diff.new is not None
        if diff.binary:
            yield LeftOut(diff.new, f"{diff.new} is not text.")
        elif diff.hunks:
            yield _opened(workspace, diff.new, diff)


def _new(workspace: Workspace, names: Sequence[str]) -> Iterator[Changed | LeftOut]:
    """Files that git does not track. A folder is a repository of its own."""
    for name in names:
        if not name.endswith("/"):
            yield _opened(workspace, name, None)


def _opened(workspace: Workspace, name: str, diff: FileDiff | None) -> Changed | LeftOut:
    try:
        path = workspace.resolve(name, allow=[name])  # to be read; nothing is changed
        document = read(path)
    except WorkspaceError as error:
        return LeftOut(name, str(error))
    lines = lines_of(document.text)
    if diff is None or document.line_ending == "\r":  # which git takes for one line
        hunks: tuple[Hunk, ...] | None = (Hunk(0, (), tuple(lines)),)
    else:
        hunks = _in_lines(diff, lines)
    if hunks is None:
        return LeftOut(name, f"{name} changed while it was read. Try again.")
    return Changed(path, document.text, hunks, _why_hidden(document, diff, hunks))


def _in_lines(diff: FileDiff, lines: Sequence[str]) -> tuple[Hunk, ...] | None:
    """The hunks with line ends as the text has them; None where it is not what git compared."""
    hunks = []
    grown = 0
    for hunk in diff.hunks:
        start = hunk.start + grown
        new = lines[start : start + len(hunk.new)]
        if [_plain(line) for line in hunk.new] != new:
            return None
        hunks.append(Hunk(hunk.start, tuple(map(_plain, hunk.old)), tuple(new)))
        grown += len(hunk.new) - len(hunk.old)
    return tuple(hunks)


def _plain(line: str) -> str:
    """A line of a diff as one of a text; the old one may have been in any encoding."""
    text = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text.removeprefix(_BOM).replace("\r\n", "\n")


def _why_hidden(document: Document, diff: FileDiff | None, hunks: Sequence[Hunk]) -> str | None:
    path = document.path
    was = diff.old if diff is not None else None
    if (why := secret_name(path.absolute.parts)) is not None:
        return f"{path} is not shown to a model: {why}."
    if was is not None and (why := secret_name(PurePosixPath(was).parts)) is not None:
        return f"{path} is not shown to a model: it was {was}, and {why}."
    gone = "".join(line for hunk in hunks for line in hunk.old).encode("utf-8", "replace")
    what = secret_content(document.data) or secret_content(gone)
    return what and f"{path} is not shown to a model: it seems to hold {what}, or did."
