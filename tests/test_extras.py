"""How an optional part is installed: into this environment, and from nobody who took our name."""

from __future__ import annotations

import importlib.util
import shlex
import sys
import tomllib

import pytest

from tests.support.files import ROOT
from vivace.extras import how_to_install

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("extra", ["llamacpp", "lsp", "mcp", "vllm", "watch"])
def test_its_packages_are_named_and_ours_is_not(extra: str) -> None:
    words = shlex.split(how_to_install(extra))
    assert words[:5] == [sys.executable, "-P", "-m", "pip", "install"]
    names = {need.partition("=")[0].partition(">")[0].partition("<")[0] for need in EXTRAS[extra]}
    named = words[5:]
    assert len(named) == len(names)
    assert all(any(word.startswith(name) for word in named) for name in names)
    assert not any(word.startswith("vivace") for word in named)


def test_where_there_is_no_pip_uv_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    words = shlex.split(how_to_install("mcp"))
    assert words[:5] == ["uv", "pip", "install", "--python", sys.executable]


def test_in_a_checkout_that_is_not_installed_it_is_the_checkouts() -> None:
    assert how_to_install("no-such-extra").endswith("'.[no-such-extra]'")
