"""Gaps as models were trained to read them."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vivace.completion import fim
from vivace.models import MODELS, Fim, Model, find
from vivace.protocol.requests import Fill, OtherFile

PLAIN = Fim(prefix="<P>", suffix="<S>", middle="<M>")
REPOSITORY = Fim(prefix="<P>", suffix="<S>", middle="<M>", pad="<X>", repo="<R>", file_sep="<F>")


def qwen() -> Fim:
    model = find("qwen2.5-coder-0.5b")
    assert model is not None
    assert model.fim is not None
    return model.fim


def written(fill: Fill, marks: Fim) -> str:
    """The whole prompt, which is the same in either form as long as no text has a mark in it."""
    whole = fim.render_as_one(fill, marks)
    assert "".join(fim.render(fill, marks)) == whole
    return whole


def test_a_gap_alone_is_prefix_suffix_middle() -> None:
    text = written(Fill(prefix="def f():\n    ", suffix="\n    return x\n"), qwen())
    assert text == ("<|fim_prefix|>def f():\n    <|fim_suffix|>\n    return x\n<|fim_middle|>")


def test_what_was_typed_goes_last_so_that_the_next_key_only_adds_to_the_prompt() -> None:
    gap = Fill(prefix="x", suffix="y", typed="re", path="a.py")
    for marks in (PLAIN, REPOSITORY):
        before = written(gap, marks)
        assert before.endswith("<P>x<S>y<M>re")
        assert written(replace(gap, typed="return"), marks) == before + "turn"


@given(st.text(), st.text())
def test_every_character_on_both_sides_is_kept(prefix: str, suffix: str) -> None:
    parts = fim.render(Fill(prefix=prefix, suffix=suffix), PLAIN)
    assert "".join(parts) == f"<P>{prefix}<S>{suffix}<M>"


def test_a_gap_at_the_end_of_the_file_has_an_empty_suffix() -> None:
    assert written(Fill(prefix="a", suffix=""), PLAIN) == "<P>a<S><M>"
    assert written(Fill(prefix="a"), PLAIN) == "<P>a<S><M>"


def test_other_files_come_first_each_behind_its_marker() -> None:
    files = (OtherFile("b.py", "B"), OtherFile("c.py", "C"))
    gap = Fill(prefix="x", suffix="y", repo="proj", path="a.py", files=files)
    assert written(gap, REPOSITORY) == ("<R>proj\n<F>b.py\nB\n<F>c.py\nC\n<F>a.py\n<P>x<S>y<M>")


def test_a_path_alone_is_told_too() -> None:
    gap = Fill(prefix="x", suffix="y", path="a.py")
    assert written(gap, REPOSITORY) == "<R>repository\n<F>a.py\n<P>x<S>y<M>"


def test_a_model_without_markers_is_told_of_no_files() -> None:
    gap = Fill(prefix="x", suffix="y", path="a.py", files=(OtherFile("b.py", "B"),))
    assert written(gap, PLAIN) == "<P>x<S>y<M>"


def test_what_was_typed_comes_last_where_the_suffix_goes_first() -> None:
    marks = Fim(prefix="<P>", suffix="<S>", middle="<M>", suffix_first=True, file_sep="<F>")
    gap = Fill(prefix="x", suffix="y", path="a.py", files=(OtherFile("b.py", "B"),))
    assert written(gap, marks) == "<F>b.py\nB\n<F>a.py\n<S>y<P>x<M>"
    assert written(Fill(prefix="x"), marks) == "<S><P>x<M>"
    assert written(replace(gap, typed="z"), marks) == "<F>b.py\nB\n<F>a.py\n<S>y<P>xz<M>"


@pytest.mark.parametrize(
    "half", [Fim(prefix="<P>", suffix="<S>", middle="<M>", repo="<R>"), PLAIN], ids=["repo", "none"]
)
def test_half_the_markers_are_none(half: Fim) -> None:
    assert written(Fill(prefix="x", suffix="y", path="a.py"), half) == "<P>x<S>y<M>"


ABOUT_MODELS = files("vivace").joinpath("models.toml").read_text("utf-8")
"""Code with marks of models in it, of this repository's own."""


@pytest.mark.parametrize("model", [m for m in MODELS if m.fim], ids=lambda model: str(model.name))
def test_a_mark_in_a_text_never_stands_whole(model: Model) -> None:
    assert model.fim is not None
    marks = fim.stops(model.fim)
    assert all(mark in ABOUT_MODELS for mark in marks)
    gap = Fill(
        prefix=ABOUT_MODELS,
        suffix=ABOUT_MODELS,
        typed=ABOUT_MODELS,
        path="models.toml",
        files=(OtherFile("also.toml", ABOUT_MODELS),),
    )
    parts = fim.render(gap, model.fim)
    assert not [part for part in parts if part not in marks and any(m in part for m in marks)]
    meant = len([part for part in parts if part in marks])
    whole = fim.render_as_one(gap, model.fim)
    assert sum(whole.count(mark) for mark in marks) == meant


@pytest.mark.parametrize("mark", ["<|im_end|>", "<|endoftext|>", "<\uff5cend\uff5c>"])
def test_what_else_looks_like_a_mark_does_not_stand_whole_either(mark: str) -> None:
    gap = Fill(prefix=f"a{mark}b", suffix="")
    assert fim.render(gap, PLAIN) == ["<P>", "a<", f"{mark[1:]}b", "<S>", "<M>"]
    assert fim.render_as_one(gap, PLAIN) == f"<P>a< {mark[1:]}b<S><M>"


def test_a_model_that_goes_on_is_stopped_at_any_mark() -> None:
    assert fim.stops(PLAIN) == ("<P>", "<S>", "<M>")
    assert fim.stops(REPOSITORY) == ("<P>", "<S>", "<M>", "<X>", "<R>", "<F>")


@pytest.mark.parametrize("model", [m for m in MODELS if m.fim], ids=lambda model: str(model.name))
def test_the_marks_of_every_model_in_the_table_are_distinct(model: Model) -> None:
    assert model.fim is not None
    marks = fim.stops(model.fim)
    assert all(marks)
    assert len(set(marks)) == len(marks)
