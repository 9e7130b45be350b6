"""Files that no model gets to read: what git ignores, and what looks like a secret.

git itself is asked what it ignores, with its own rules in all their places; outside of a repository
too, where ``.gitignore`` files still say what the person wants left alone. Where git cannot answer,
the file is not read.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from vivace.workspace.document import read_in
from vivace.workspace.errors import GitFailed, WorkspaceError, explain
from vivace.workspace.git import run_git
from vivace.workspace.paths import SafePath, open_folder, top_level

__all__ = ["ignored", "own_folders", "secret_content", "secret_name", "why_not_read"]

_MADE = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})
"""Folders that programs fill."""
_NAMES = {
    "an environment with secrets": ".env .env[._-]* *.env .envrc .dev.vars .renviron "
    "local.settings.json wp-config.php",
    "a key": "*.pem *.key *.p8 *.p12 *.pfx *.jks *.jceks *.keystore *.ppk *.kdbx *.kdb *.gpg "
    "*.ovpn id_rsa* id_dsa* id_ecdsa* id_ed25519* *_rsa *_ed25519 keys.json service-account*.json",
    "a login": ".npmrc .yarnrc .yarnrc.yml .pypirc .netrc _netrc .pgpass .my.cnf .htpasswd .boto "
    ".git-credentials .dockercfg .s3cfg rclone.conf .vault-token .vault_pass* auth.json kubeconfig "
    "kubeconfig.* *.kubeconfig *.secret *.secrets .mylogin.cnf htpasswd shadow gshadow",
    "what was typed in a terminal": ".*_history",
    "Terraform's values": "*.tfvars *.tfvars.json *.tfstate *.tfstate.*",
}
_FOLDERS = (
    *(".ssh", ".gnupg", ".password-store", ".aws", ".azure", ".gcloud", ".kube", ".docker"),
    *(".config/gcloud", ".config/gh", ".git"),
)
"""git's own has logins in addresses, and the changes that a message is written for."""
_COPIED = re.compile(r"(?:~|\.(?:bak|backup|old|orig|save|sw[a-p]|tmp))+$")
"""How programs end the names of copies."""
_STEMS = re.compile(r"\.?(credentials?|secrets?|passwords?|passwd)([._-].*)?")
_CODE = re.compile(
    r"\.(py|pyi|[cm]?[jt]sx?|c|cc|cpp|h|hpp|rs|go|java|kt|rb|php|cs|swift|scala|sh|md|rst|html|css"
    r"|lua|exs?|hs|ml|dart|vue|svelte)"
)
"""A program about credentials holds none, or its content tells."""
_HARMLESS = re.compile(
    r".*\.pub|\.env\.(example|sample|template|dist|defaults?)|.*\.(example|sample)"
)

_CONTENTS = {
    "a private key": (b"PRIVATE", rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    "a PuTTY key": (b"PuTTY-", rb"PuTTY-User-Key-File-\d"),
    "an AWS key": (b"AKIA ASIA", rb"\b(?:AKIA|ASIA)(?!\w*EXAMPLE)[0-9A-Z]{16}\b"),
    "a GitHub token": (
        b"ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    ),
    "a GitLab token": (b"glpat-", rb"\bglpat-[A-Za-z0-9_-]{20,}"),
    "an API key": (b"sk-", rb"\bsk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[A-Za-z0-9_-]{20,}"),
    "a Stripe key": (b"k_live_", rb"\b[rs]k_live_[A-Za-z0-9]{20,}"),
    "a Slack token": (b"xox", rb"\bxox[abeoprs]-[A-Za-z0-9-]{20,}"),
    "a Google key": (b"AIza", rb"\bAIza[A-Za-z0-9_-]{35}"),
    "a Hugging Face token": (b"hf_", rb"\bhf_[A-Za-z0-9]{34,}"),
    "an npm token": (b"npm_", rb"\bnpm_[A-Za-z0-9]{36,}"),
    "a PyPI token": (b"pypi-", rb"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    "a Vivace key": (b"viv_", rb"\bviv_[A-Za-z0-9_-]{43}"),
}
"""What it is, words of which one is in whatever is found, and the pattern, which takes long to look
for in a long text."""
_PATTERNS = [
    (what, words.split(), re.compile(pattern)) for what, (words, pattern) in _CONTENTS.items()
]


def why_not_read(path: SafePath, content: bytes | None = None) -> str | None:
    """Why a file must not enter a context, for the person; None where it may."""
    if (why := secret_name(path.absolute.parts)) is not None:  # the root may be such a folder
        return f"{path} is not read: {why}."
    try:
        if ignored([path]):
            return f"{path} is not read: git ignores it."
        data = _content(path) if content is None else content
    except GitFailed as error:
        return f"{path} is not read: whether git ignores it cannot be told. {error}"
    except WorkspaceError as error:
        return str(error)
    if (what := secret_content(data)) is not None:
        return f"{path} is not read: it seems to hold {what}."
    return None


def secret_name(parts: Iterable[str]) -> str | None:
    """Why a path looks like a secret's; None where it does not."""
    names = [part.casefold() for part in parts]
    above = f"/{'/'.join(names[:-1])}/"
    if any(f"/{folder}/" in above for folder in _FOLDERS):
        return "its folder is one for secrets"
    name = _COPIED.sub("", names[-1])
    if _HARMLESS.fullmatch(name):
        return None
    if _STEMS.fullmatch(name) and not _CODE.fullmatch(PurePosixPath(name).suffix):
        return "its name is one for secrets"
    for what, patterns in _NAMES.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return f"its name is one for {what}"
    return None


def secret_content(data: bytes) -> str | None:
    """What kind of secret is in there, if one is."""
    for what, words, pattern in _PATTERNS:
        if any(word in data for word in words) and pattern.search(data):
            return what
    return None


def own_folders(names: Iterable[str]) -> list[str]:
    """The folders to look into where no git says what is ignored."""
    return [name for name in names if name not in _MADE and not name.startswith(".")]


def ignored(paths: Iterable[SafePath]) -> set[SafePath]:
    """Those that git ignores; what it tracks it does not ignore."""
    by_tree: dict[Path | None, list[SafePath]] = {}
    for path in paths:
        by_tree.setdefault(top_level(path.absolute.parent), []).append(path)
    found: set[SafePath] = set()
    for tree, members in by_tree.items():
        found |= _ignored_in(tree, members) if tree else _ignored_without_repository(members)
    return found


def _ignored_in(tree: Path, paths: list[SafePath], *options: str) -> set[SafePath]:
    asked = {bytes(path.absolute): path for path in paths}
    arguments = (*options, "check-ignore", "-z", "--stdin")
    # 1 says that it ignores none of them.
    said = run_git(tree, *arguments, stdin=b"\0".join(asked) + b"\0", accept=(0, 1))
    return {asked[name] for name in said.split(b"\0") if name}


def _ignored_without_repository(paths: list[SafePath]) -> set[SafePath]:
    """By the ``.gitignore`` files alone, through an empty repository that is lent to git."""
    root = paths[0].root
    folders = {folder for path in paths for folder in path.absolute.parents}
    if not any((folder / ".gitignore").is_file() for folder in folders):
        return set()
    with tempfile.TemporaryDirectory(prefix="vivace-") as lent:
        run_git(Path(lent), "init", "--quiet", "--bare", lent)
        return _ignored_in(root, paths, f"--git-dir={lent}", f"--work-tree={root}")


def _content(path: SafePath) -> bytes:
    try:
        with open_folder(path) as folder:
            return read_in(folder, path)[0]
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise explain(path, error) from error
