"""Gaps as models were trained to read them."""

from __future__ import annotations

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


def test_a_gap_alone_is_prefix_suffix_middle() -> None:
    text = fim.render(Fill(prefix="def f():\n    ", suffix="\n    return x\n"), qwen())
    assert text == ("<|fim_prefix|>def f():\n    <|fim_suffix|>\n    return x\n<|fim_middle|>")


def test_what_was_typed_goes_last_so_that_the_next_key_only_adds_to_the_prompt() -> None:
    gap = Fill(prefix="x", suffix="y", typed="re", path="a.py")
    for marks in (PLAIN, REPOSITORY):
        before = fim.render(gap, marks)
        assert before.endswith("<P>x<S>y<M>re")
        assert fim.render(replace(gap, typed="return"), marks) == before + "turn"


@given(st.text(), st.text())
def test_every_character_on_both_sides_is_kept(prefix: str, suffix: str) -> None:
    text = fim.render(Fill(prefix=prefix, suffix=suffix), PLAIN)
    assert text == f"<P>{prefix}<S>{suffix}<M>"


def test_a_gap_at_the_end_of_the_file_has_an_empty_suffix() -> None:
    assert fim.render(Fill(prefix="a", suffix=""), PLAIN) == "<P>a<S><M>"
    assert fim.render(Fill(prefix="a"), PLAIN) == "<P>a<S><M>"


def test_other_files_come_first_each_behind_its_marker() -> None:
    files = (OtherFile("b.py", "B"), OtherFile("c.py", "C"))
    gap = Fill(prefix="x", suffix="y", repo="proj", path="a.py", files=files)
    assert fim.render(gap, REPOSITORY) == ("<R>proj\n<F>b.py\nB\n<F>c.py\nC\n<F>a.py\n<P>x<S>y<M>")


def test_a_path_alone_is_told_too() -> None:
    gap = Fill(prefix="x", suffix="y", path="a.py")
    assert fim.render(gap, REPOSITORY) == "<R>repository\n<F>a.py\n<P>x<S>y<M>"


def test_a_model_without_markers_is_told_of_no_files() -> None:
    gap = Fill(prefix="x", suffix="y", path="a.py", files=(OtherFile("b.py", "B"),))
    assert fim.render(gap, PLAIN) == "<P>x<S>y<M>"


def test_what_was_typed_comes_last_where_the_suffix_goes_first() -> None:
    marks = Fim(prefix="<P>", suffix="<S>", middle="<M>", suffix_first=True, file_sep="<F>")
    gap = Fill(prefix="x", suffix="y", path="a.py", files=(OtherFile("b.py", "B"),))
    assert fim.render(gap, marks) == "<F>b.py\nB\n<F>a.py\n<S>y<P>x<M>"
    assert fim.render(Fill(prefix="x"), marks) == "<S><P>x<M>"
    assert fim.render(replace(gap, typed="z"), marks) == "<F>b.py\nB\n<F>a.py\n<S>y<P>xz<M>"


@pytest.mark.parametrize(
    "half", [Fim(prefix="<P>", suffix="<S>", middle="<M>", repo="<R>"), PLAIN], ids=["repo", "none"]
)
def test_half_the_markers_are_none(half: Fim) -> None:
    assert fim.render(Fill(prefix="x", suffix="y", path="a.py"), half) == "<P>x<S>y<M>"


def test_a_model_that_goes_on_is_stopped_at_any_mark() -> None:
    assert fim.stops(PLAIN) == ("<P>", "<S>", "<M>")
    assert fim.stops(REPOSITORY) == ("<P>", "<S>", "<M>", "<X>", "<R>", "<F>")


@pytest.mark.parametrize("model", [m for m in MODELS if m.fim], ids=lambda model: str(model.name))
def test_the_marks_of_every_model_in_the_table_are_distinct(model: Model) -> None:
    assert model.fim is not None
    marks = fim.stops(model.fim)
    assert all(marks)
    assert len(set(marks)) == len(marks)
