"""The code in an answer is found whatever a small model puts around it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits import fence
from vivace.edits.fence import Unfenced, fence_for, longest_block
from vivace.syntax.lines import lines_of

OLD = ["def f():", "    return 1"]
CODE = ["def f():\n", "    return 2\n"]
PLAIN = "".join(CODE)


def read(answer: str, old: list[str] = OLD) -> list[str]:
    reader = Unfenced(old)
    return reader.feed(answer) + reader.finish()


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{PLAIN}```\n",
        f"```\n{PLAIN}```",
        f"~~~python\n{PLAIN}~~~\n",
        f"Sure! Here is the code:\n\n```python\n{PLAIN}```\n\nI changed the return value.",
        f"```python\n{PLAIN}",
        f"```python\n{PLAIN.rstrip()}```",
        f"  ```py\n{PLAIN}  ```\n",
        f"```python title=x\n{PLAIN}```\n```python\nf()\n```\n",
        PLAIN,
        f"\n{PLAIN}",
        f"{PLAIN}```\nThat is all.",
        f"Here is the code:\n{PLAIN}",
    ],
)
def test_the_code_is_found(answer: str) -> None:
    assert [line for line in read(answer) if line.strip()] == CODE


def test_an_answer_without_fence_that_begins_anew_is_taken_whole() -> None:
    assert read("@cache\n" + PLAIN) == ["@cache\n", *CODE]


def test_fences_inside_markdown_do_not_end_the_answer() -> None:
    old = ["# Title", "```sh", "make", "```", "Text"]
    new = ["# Title\n", "```sh\n", "make all\n", "```\n", "Text\n"]
    assert read("```markdown\n" + "".join(new) + "```\nDone.\n", old) == new


def test_a_bare_fence_inside_markdown_does_not_end_the_answer() -> None:
    old = ["# Title", "```", "make", "```", "Text"]
    new = ["# Title\n", "```\n", "make all\n", "```\n", "Text\n"]
    assert read("```markdown\n" + "".join(new) + "```\nDone.\n", old) == new


@pytest.mark.parametrize(
    ("language", "new"),
    [
        ("markdown", ["# Title\n", "```sh\n", "make\n", "```\n", "Text\n"]),
        ("markdown", ["```\n", "~~~\n", "make\n", "~~~\n", "```\n", "Text\n"]),
        ("markdown", ["# Title\n", "```\n", "make\n", "```\n", "Text\n"]),
        ("markdown", ["```\n", "a\n", "```\n", "~~~\n", "b\n", "~~~\n", "```\n", "c\n", "```\n"]),
        (
            "python",
            ['"""Adds.\n', "\n", "    ```python\n", "    f()\n", "    ```\n", '"""\n', *CODE],
        ),
        ("rust", ["/// Adds.\n", "/// ```\n", "/// f();\n", "/// ```\n", "fn f() {}\n"]),
        ("js", ["/**\n", " * ```\n", " * f();\n", " * ```\n", " */\n", "function f() {}\n"]),
        ("", ["# Title\n", "```sh\n", "make\n", "```\n", "Text\n"]),
    ],
)
def test_a_fence_that_is_new_inside_the_answer_does_not_end_it(
    language: str, new: list[str]
) -> None:
    answer = f"```{language}\n{''.join(new)}```\n"
    for after in ("", "Done.\n", "Try it:\n```sh\nmake\n```\n"):
        assert read(answer + after) == new


def test_a_fence_that_is_new_does_not_end_an_answer_without_one() -> None:
    new = [*CODE, "# as in\n", "```sh\n", "f\n", "```\n", "x = 1\n"]
    assert read("".join(new) + "```\nDone.\n") == new


def test_code_that_speaks_of_fences_does_not_end_the_answer() -> None:
    new = ["x = 1  # not ```\n", "if a.startswith('```'):\n", "    y = '```\\n'\n", "z = 2\n"]
    assert read("```python\n" + "".join(new) + "```\n", ["x = 0  # not ```"]) == new


def test_a_longer_fence_is_closed_only_by_its_like() -> None:
    new = ["a\n", "```\n", "b\n", "```\n"]
    assert read("````markdown\n" + "".join(new) + "````\n", ["a", "```", "```"]) == new


@given(st.text("`~ab\n", max_size=60))
def test_the_fence_we_write_is_closed_by_no_line_of_the_text(text: str) -> None:
    assert fence_for(text) not in text


@given(st.text("`~ab:\n ", max_size=80), st.integers(0, 80))
def test_it_does_not_matter_where_an_answer_is_cut(answer: str, cut: int) -> None:
    reader = Unfenced(OLD)
    pieces = reader.feed(answer[:cut]) + reader.feed(answer[cut:]) + reader.finish()
    assert pieces == read(answer)


def test_a_line_of_two_megabytes_is_read_once_and_not_at_each_of_its_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    split: list[int] = []

    def counted(text: str) -> list[str]:
        split.append(len(text))
        return lines_of(text)

    monkeypatch.setattr(fence, "lines_of", counted)
    reader = Unfenced(OLD)
    piece = "total = 1 + tax;"
    pieces = ["```js\n", *[piece] * 131_072, "\n", "```\n"]
    assert [line for each in pieces for line in reader.feed(each)] == [131_072 * piece + "\n"]
    assert sum(split) == len("".join(pieces))


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("no block", None),
        ("```\na\nb\n", None),
        ("```\na\n```\n", None),
        ("```py\na\nb\n```\n", "```py\na\nb\n```\n"),
        ("```\na\n```\nso\n```\na\nb\n```\n```\nc\n```", "```\na\nb\n```\n"),
        ("````\n```\nx\n```\n````\n", "````\n```\nx\n```\n````\n"),
        ("```md\na\n```sh\nb\n```\nc\n```\nso\n", "```md\na\n```sh\nb\n```\nc\n```\n"),
    ],
)
def test_the_longest_block_that_is_closed_is_found(text: str, block: str | None) -> None:
    assert longest_block(text, 2) == block


@given(st.text("`~ab \n", max_size=60), st.integers(0, 5))
def test_a_longest_block_stands_in_the_text_as_it_is(text: str, least: int) -> None:
    block = longest_block(text, least)
    assert block is None or block in text
