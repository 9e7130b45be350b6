"""What no model gets to read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vivace.workspace import git
from vivace.workspace.ignore import ignored, secret_content, secret_name, why_not_read
from vivace.workspace.paths import Workspace


def run(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, "-C", str(root), *arguments], check=True, capture_output=True)


def reason(root: Path, name: str, content: bytes = b"a = 1\n") -> str | None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(content)
    return why_not_read(Workspace(root).resolve(name, allow=[name]))


# -- by name --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        "prod.env",
        "server.pem",
        "id_rsa",
        "id_ed25519",
        "tls.key",
        ".npmrc",
        ".pypirc",
        ".netrc",
        "credentials",
        "credentials.json",
        "Credentials.YML",
        "kubeconfig",
        "store.p12",
        "team.kdbx",
        "terraform.tfvars",
        "prod.tfvars",
        ".git-credentials",
        "secrets.yaml",
        ".aws/config",
        ".ssh/known_hosts",
        "terraform.tfstate.backup",
        "keys.json",
        ".htpasswd",
        ".ENV",
        ".env~",
        ".env-prod",
        ".env.local.bak",
        "id_rsa.old",
        ".npmrc.swp",
        ".dev.vars",
        ".bash_history",
        ".config/gh/hosts.yml",
        ".git/config",
        ".git/COMMIT_EDITMSG",
    ],
)
def test_what_is_called_like_a_secret_is_not_read(root: Path, name: str) -> None:
    said = reason(root, name)
    assert said is not None
    assert name in said


def test_a_folder_for_secrets_is_one_where_it_is_the_workspace_itself(root: Path) -> None:
    (root / ".kube").mkdir()
    assert reason(root / ".kube", "config") is not None


@pytest.mark.parametrize(
    "name",
    [
        "main.py",
        "environment.py",
        "credentials.py",
        "secrets.ts",
        "keyboard.c",
        "id_rsa.pub",
        ".env.example",
        "config.json",
        "tokens.md",
        "pem.py",
        "key.h",
        "main.py.orig",
        ".env.example~",
        "gh/hosts.py",
        "browser_history",
        ".gitignore",
    ],
)
def test_what_is_only_about_secrets_is_read(root: Path, name: str) -> None:
    assert reason(root, name) is None
    assert secret_name([name]) is None


# -- by content -----------------------------------------------------------------------------------

# Put together here, so that this file does not look like what it tests.
SECRETS = [
    b"-----BEGIN " + b"PRIVATE KEY-----\nMIIE",
    b"-----BEGIN RSA " + b"PRIVATE KEY-----\nMIIE",
    b"-----BEGIN PGP " + b"PRIVATE KEY BLOCK-----",
    b"key = '" + b"AKIA" + b"Q" * 16 + b"'",
    b"ghp_" + b"a1B2" * 9,
    b"github_pat_" + b"a1B2" * 12,
    b"OPENAI_API_KEY=sk-" + b"proj-a1B2c3D4e5F6g7H8i9J0",
    b"glpat-" + b"a1B2c3D4e5F6g7H8i9J0",
    b"xoxb-" + b"1234567890-abcdefghij",
    b"AIza" + b"a1B2c" * 7,
    b"hf_" + b"a1B2c" * 8,
    b"viv_" + b"a1B2c" * 8 + b"xyz",
    b"ASIA" + b"Q" * 16,
    *(b"gh" + kind + b"_" + b"a1B2" * 9 for kind in (b"o", b"u", b"s", b"r")),
    *(kind + b"k_live_" + b"a1B2" * 6 for kind in (b"s", b"r")),
    *(
        b"xox" + kind + b"-" + b"1234567890-abcdefghij"
        for kind in (b"a", b"e", b"o", b"p", b"r", b"s")
    ),
    b"npm_" + b"a1B2" * 9,
    b"pypi-" + b"AgE" + b"a1B2" * 13,
    b"PuTTY-User-" + b"Key-File-3: ssh-rsa",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_what_holds_a_secret_is_not_read(root: Path, secret: bytes) -> None:
    said = reason(root, "main.py", b"# harmless\n" + secret + b"\n")
    assert said is not None
    assert "seems to hold" in said
    assert secret.decode()[-10:] not in said


@pytest.mark.parametrize(
    "text",
    [
        b"AKIAIOSFODNN7EXAMPLE",
        b"class='sk-folding-cube-with-a-long-name'",
        b"task-force-of-many-words",
        b"-----BEGIN CERTIFICATE-----",
        b"-----BEGIN PUBLIC KEY-----",
        b"viv_" + b"short",
    ],
)
def test_what_only_looks_a_little_like_one_is_read(text: bytes) -> None:
    assert secret_content(text) is None


# -- by git ---------------------------------------------------------------------------------------


def test_what_git_ignores_is_not_read(root: Path) -> None:
    run(root, "init", "-q")
    (root / ".gitignore").write_text("build/\n*.log\n!keep.log\n")
    (root / "sub").mkdir()
    (root / "sub" / ".gitignore").write_text("local.py\n")
    for name in ("build/a.py", "x.log", "sub/local.py", "sub/deep/local.py"):
        assert "git ignores it" in str(reason(root, name))
    for name in ("local.py", "keep.log", "a.py", "sub/a.py"):
        assert reason(root, name) is None


def test_what_git_tracks_is_read_whatever_the_rules(root: Path) -> None:
    run(root, "init", "-q")
    (root / "a.log").write_text("a\n")
    run(root, "add", "a.log")
    (root / ".gitignore").write_text("*.log\n")
    assert reason(root, "a.log") is None


def test_many_files_are_asked_for_at_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(root, "init", "-q")
    (root / ".gitignore").write_text("odd*\n")
    workspace = Workspace(root)
    paths = [
        workspace.resolve(f"{kind} {number}.py") for number in range(500) for kind in ("odd", "ok")
    ]
    assert ignored(paths) == {path for path in paths if path.name.startswith("odd")}


def test_a_repository_inside_has_its_own_rules(root: Path) -> None:
    run(root, "init", "-q")
    (root / "inner").mkdir()
    run(root / "inner", "init", "-q")
    (root / "inner" / ".gitignore").write_text("a.py\n")
    assert "git ignores it" in str(reason(root, "inner/a.py"))
    assert reason(root, "a.py") is None


def test_without_a_repository_the_rules_count_too(root: Path) -> None:
    (root / ".gitignore").write_text("local.py\n")
    assert "git ignores it" in str(reason(root, "sub/local.py"))
    assert reason(root, "a.py") is None
    assert sorted(path.name for path in root.iterdir()) == [".gitignore", "a.py", "sub"]


def test_where_git_cannot_tell_nothing_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(root, "init", "-q")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "Install git" in str(reason(root, "a.py"))


def test_a_broken_repository_is_said_so(root: Path) -> None:
    (root / ".git").write_text("gitdir: nowhere\n")
    assert "cannot be told" in str(reason(root, "a.py"))


def test_git_runs_nothing_that_the_repository_names(root: Path) -> None:
    run(root, "init", "-q")
    run(root, "config", "core.fsmonitor", f"touch {root}/ran; false")
    git.run_git(root, "status", "--porcelain")
    assert not (root / "ran").exists()


def test_a_surrounding_repository_in_the_environment_is_not_ours(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(root, "init", "-q")
    (root / ".gitignore").write_text("a.py\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    assert "git ignores it" in str(reason(root, "a.py"))


def test_a_file_that_is_to_be_made_may_be_read(workspace: Workspace) -> None:
    assert why_not_read(workspace.resolve("new/a.py")) is None
