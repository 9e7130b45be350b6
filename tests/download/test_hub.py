"""Addresses of the hub, names of split files, and the token that people have."""

from __future__ import annotations

from pathlib import Path

import pytest

from vivace.download.hub import first_of, hub_page, hub_url, is_hub, listing_url, parts_of, token


def test_the_hubs_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert hub_url("a/b", "c.gguf") == "https://huggingface.co/a/b/resolve/main/c.gguf"
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror/")
    assert hub_url("a/b", "d/c 1.gguf", "refs/pr/1") == (
        "https://mirror/a/b/resolve/refs%2Fpr%2F1/d/c%201.gguf"
    )
    assert listing_url("a/b") == "https://mirror/api/models/a/b"


def test_the_page_of_a_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror")
    for address in (hub_url("a/b", "d/c.gguf"), listing_url("a/b")):
        assert hub_page(address) == "https://mirror/a/b"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://mirror/x", True),
        ("https://mirror:443/x", True),
        ("http://mirror/x", False),
        ("https://mirror.example/x", False),
        ("https://mirror@elsewhere/x", False),
    ],
)
def test_only_the_hub_is_the_hub(url: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror")
    assert is_hub(url) == expected


# -- split files -----------------------------------------------------------------------------------


def test_a_file_in_one_piece_is_alone() -> None:
    for name in (
        "a.gguf",
        "a-00001-of-00002.bin",
        "a-1-of-2.gguf",
        "a-00000-of-00000.gguf",
        "a-00003-of-00002.gguf",
    ):
        assert parts_of(name) == (name,)
        assert first_of(name) == name


@pytest.mark.parametrize("number", [1, 2, 3])
def test_any_part_leads_to_all(number: int) -> None:
    asked = f"Q4_K_M/gpt-oss-120b-mxfp4-0000{number}-of-00003.gguf"
    parts = parts_of(asked)
    assert parts == tuple(f"Q4_K_M/gpt-oss-120b-mxfp4-0000{n}-of-00003.gguf" for n in (1, 2, 3))
    assert first_of(asked) == parts[0]


# -- the token -------------------------------------------------------------------------------------


def test_the_variable_comes_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_file\n")
    home = {"HF_HOME": str(tmp_path)}
    assert token(home) == "hf_file"
    assert token(home | {"HF_TOKEN": " hf_variable\n"}) == "hf_variable"
    assert token(home | {"HUGGING_FACE_HUB_TOKEN": "hf_old"}) == "hf_old"


def test_the_file_is_where_the_hubs_tools_put_it(tmp_path: Path) -> None:
    folder = tmp_path / "huggingface"
    folder.mkdir()
    (folder / "token").write_text("hf_file")
    assert token({"XDG_CACHE_HOME": str(tmp_path)}) == "hf_file"
    elsewhere = tmp_path / "mine"
    elsewhere.write_text("hf_mine")
    environment = {"XDG_CACHE_HOME": str(tmp_path), "HF_TOKEN_PATH": str(elsewhere)}
    assert token(environment) == "hf_mine"


@pytest.mark.parametrize("text", ["", " \n", "two words", "a\nb", "né"])
def test_what_is_no_token_is_not_sent(text: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text, "utf-8")
    assert token({"HF_HOME": str(tmp_path)}) is None
    assert token({"HF_HOME": str(tmp_path), "HF_TOKEN": text or " "}) is None


def test_without_a_token_none_is_sent(tmp_path: Path) -> None:
    assert token({"HF_HOME": str(tmp_path)}) is None
    (tmp_path / "token").write_bytes(b"\xff")
    assert token({"HF_HOME": str(tmp_path)}) is None
