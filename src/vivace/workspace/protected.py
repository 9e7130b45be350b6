"""Files that no edit touches unless the person names them: a change to them runs code, or opens
doors, without anybody looking at it first.

Names are compared as the most careless file system would: without regard to case, Unicode form,
invisible characters, trailing dots and what follows a colon.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

__all__ = ["plain_name", "why_protected"]

_GIT = "it belongs to version control itself"
_EDITOR = "it holds editor or agent settings, which can run programs"
_HOOK = "it runs by itself, as a hook, in a shell or in CI"
_OURS = "it is Vivace's own configuration"

_PROTECTED = {
    _GIT: ".git .gitmodules .gitconfig .hg .svn .jj .bzr",
    _EDITOR: ".vscode .idea .vs .fleet .zed .vim .nvim .vimrc .nvimrc .gvimrc .exrc .nvim.lua "
    ".lvimrc .dir-locals.el .emacs.d .editorconfig .devcontainer .devcontainer.json .theia .helix "
    ".claude .codex .cursor .continue .gemini .mcp.json .aider.conf.yml",
    _HOOK: ".husky .githooks .git-hooks .pre-commit-config.yaml lefthook.yml lefthook.yaml "
    ".lefthook .lefthook.yml .envrc .bashrc .bash_profile .bash_login .bash_logout .profile .zshrc "
    ".zshenv .zprofile .zlogin .cshrc .tcshrc .login .inputrc .gdbinit .lldbinit .github/workflows "
    ".github/actions .gitlab-ci.yml .circleci .travis.yml .buildkite .woodpecker .drone.yml "
    "azure-pipelines.yml jenkinsfile",
    _OURS: "vivace.toml .vivace keys.json",
}
_REASONS = {f"/{name}/": why for why, names in _PROTECTED.items() for name in names.split()}
_WORKSPACE_FILES = (".code-workspace", ".sublime-project", ".sublime-settings")
_SHORT_GIT = re.compile(r"\.?git~\d+")
"""What Windows calls ``.git`` where names have eight characters."""


def plain_name(name: str) -> str:
    visible = (each for each in name if unicodedata.category(each) != "Cf")
    folded = unicodedata.normalize("NFKC", "".join(visible)).casefold()
    return folded.partition(":")[0].rstrip(" .")


def why_protected(parts: Sequence[str]) -> str | None:
    """Why an edit must not touch the file with this path, or None where it may."""
    names = [plain_name(part) for part in parts]
    way = f"/{'/'.join(names)}/"
    for entry, why in _REASONS.items():
        if entry in way:
            return why
    if any(_SHORT_GIT.fullmatch(name) for name in names):
        return _GIT
    return _EDITOR if names[-1].endswith(_WORKSPACE_FILES) else None
