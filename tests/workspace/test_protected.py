"""What no edit touches by itself."""

from __future__ import annotations

import pytest

from vivace.workspace.protected import why_protected


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        "a/b/.git",
        ".GIT/HEAD",
        ".github/workflows/ci.yml",
        ".github/actions/x/action.yml",
        "a/.idea/x.xml",
        ".editorconfig",
        "x.code-workspace",
        ".pre-commit-config.yaml",
        "Jenkinsfile",
        ".zshrc",
        ".mcp.json",
        ".claude/settings.json",
        "vivace.toml",
        "Vivace.TOML.",
        "keys.json",
    ],
)
def test_these_are_protected(path: str) -> None:
    assert why_protected(path.split("/"))


@pytest.mark.parametrize(
    "path",
    [
        ".gitignore",
        ".gitattributes",
        "git/config.py",
        "src/github/workflows.py",
        ".github/CODEOWNERS",
        "profile.py",
        "vivace.py",
        "a.git",
        "gitlab-ci.md",
        "idea/x.py",
        "AGENTS.md",
        "Makefile",
    ],
)
def test_these_are_not(path: str) -> None:
    assert why_protected(path.split("/")) is None
