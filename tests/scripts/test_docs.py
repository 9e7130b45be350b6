"""scripts/docs: what is wrong with a page is found, and said with its line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.scripts.test_fetch import SCRIPTS, load_script

pages = load_script("docs_pages")
blocks = load_script("docs_blocks")
walk = load_script("docs_walk")
docs = load_script("docs")


def blocks_of(text: str) -> list[tuple[str, int, str, int]]:
    found = pages.blocks_of(dedent(text))
    return [(each.language, each.line, each.not_run, each.ends_with) for each in found]


def test_blocks_have_their_line_and_what_is_said_of_them() -> None:
    text = """\
        # Page

        ```sh
        ls
        ```

        <!-- not run: needs a GPU -->
        ```sh
        nvidia-smi
        ```

        <!-- ends with: 1 -->

        ```sh
        false
        ```

        - in a list:

          ```toml
          a = 1
          ```
        """
    assert blocks_of(text) == [
        ("sh", 4, "", 0),
        ("sh", 9, "needs a GPU", 0),
        ("sh", 15, "", 1),
        ("toml", 21, "", 0),
    ]


def test_a_comment_is_of_the_next_block_only() -> None:
    text = "<!-- not run: so -->\n\nWords.\n\n```sh\nls\n```\n"
    assert blocks_of(text) == [("sh", 6, "", 0)]


def test_a_block_in_a_list_is_without_its_indentation() -> None:
    (block,) = pages.blocks_of("- so:\n\n  ```sh\n  if true; then\n    ls\n  fi\n  ```\n")
    assert block.text == "if true; then\n  ls\nfi\n"


# -- links ----------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/one.md", "docs/two.md", "code.py"):
        (tmp_path / name).touch()
    return tmp_path


def wrong(root: Path, text: str, other: str = "") -> list[str]:
    return list(pages.broken_links(root, {"docs/one.md": text, "docs/two.md": other}))


def test_links_that_lead_somewhere_are_well(root: Path) -> None:
    text = """
    [two](two.md) [there](two.md#a-heading) [up](../README.md) [code](../code.py)
    [web](https://example.com/x#y) [here](#own)
    ## Own
    """
    assert wrong(root, dedent(text), "# A `heading`!\n") == []


def test_a_link_to_a_page_that_is_not_there_is_told_with_its_line(root: Path) -> None:
    (told,) = wrong(root, "\nSee [over\nthere](three.md).\n")
    assert told == "docs/one.md:3: three.md leads to docs/three.md, which is not there"


def test_a_link_to_a_heading_that_is_not_there_is_told(root: Path) -> None:
    (told,) = wrong(root, "[there](two.md#other)", "# A heading\n")
    assert "a heading that docs/two.md does not have" in told


def test_a_picture_that_is_not_there_is_told(root: Path) -> None:
    (told,) = wrong(root, "![A run](pictures/run.svg)")
    assert "pictures/run.svg" in told


def test_code_has_no_links(root: Path) -> None:
    assert wrong(root, "`[a](b.md)`\n\n```sh\necho [a](c.md)\n```\n") == []


def test_headings_have_the_anchors_that_github_gives_them() -> None:
    text = (
        "# Who: is `next`?\n## Twice\n## Twice\n## [Linked](x.md) words\n```sh\n# no heading\n```\n"
    )
    assert pages.anchors_of(text) == {"who-is-next", "twice", "twice-1", "linked-words"}


def test_the_site_has_no_link_that_leads_out_of_it() -> None:
    text = "[two](two.md) [`code`](../code.py) `[x](../y)`\n"
    told = pages.for_the_site("docs/one.md", text, ["docs/"])
    assert told == "[two](two.md) `code` `[x](../y)`\n"


def test_where_the_repository_has_an_address_the_site_leads_there() -> None:
    text = "[code](../code.py#L3)"
    told = pages.for_the_site("docs/one.md", text, ["docs/"], "https://example.com/main")
    assert told == "[code](https://example.com/main/code.py#L3)"


def test_pages_that_code_names_are_found_with_their_line() -> None:
    assert list(pages.named_pages('x\n"see docs/use/edit.md."\n')) == [(2, "docs/use/edit.md")]


# -- data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", ["toml\na =", "json\n{'a': 1}", "yaml\na: [1"])
def test_settings_that_cannot_be_read_are_told(block: str) -> None:
    ((line, why),) = blocks.unreadable(pages.blocks_of(f"```{block}\n```\n"))
    assert line == 2
    assert why.startswith(f"is not {block.split()[0]}: ")


def test_a_piece_of_an_object_is_json_too() -> None:
    found = pages.blocks_of('```json\n"prediction": {"leniency": 4}\n```\n')
    assert list(blocks.unreadable(found)) == []


def test_the_share_of_marked_blocks_is_of_those_that_could_be_run() -> None:
    text = "```sh\nls\n```\n<!-- not run: so -->\n```python\nx\n```\n```toml\na = 1\n```\n"
    assert blocks.marked_share(list(pages.blocks_of(text))) == 0.5


# -- code that is run -----------------------------------------------------------------------------


def tried(text: str) -> str:
    failure = blocks.try_page("page.md", dedent(text)).failure
    assert isinstance(failure, str)
    return failure


def release(page: str, line: int, says: str) -> Any:
    return pytest.param(page, line, says, marks=pytest.mark.release)


def test_a_page_is_run_in_one_shell_with_a_server_behind_it() -> None:
    page = """\
        ```sh
        mkdir there && cd there
        word=hello
        ```

        ```toml
        # vivace.toml
        version = 1

        [[engines]]
        name = "large"
        kind = "vllm"
        model = "qwen2.5-coder-7b"
        path = "Qwen/Qwen2.5-Coder-7B-Instruct"
        ```

        ```sh
        [[ $word == hello && $(basename "$PWD") == there ]]
        vivace serve
        vivace ask --model qwen2.5-coder-7b "Say hello." | grep scripted
        ```

        <!-- ends with: 1 -->
        ```sh
        vivace ask --model unknown "Say hello."
        ```

        <!-- not run: never -->
        ```sh
        exit 9
        ```
        """
    assert tried(page) == ""


@pytest.mark.parametrize(
    ("page", "line", "says"),
    [
        ("```sh\ntrue\nvivace nonsense\n```\n", 3, "No such command 'nonsense'"),
        release("```sh\n\nfalse | cat\n```\n", 3, "status 1"),
        release("```python\nassert 1 == 2\n```\n", 2, "AssertionError"),
        release('```toml\n[server]\nhots = "a"\n```\n', 2, "did you mean 'host'?"),
        release("<!-- ends with: 3 -->\n```sh\ntrue\n```\n", 3, "ended with status 0, not 3"),
        release("```sh\npip install 'vivace[nothing]'\n```\n", 2, "no extra nothing"),
    ],
)
def test_what_fails_is_told_with_its_line_and_output(page: str, line: int, says: str) -> None:
    failure = tried(page)
    first, _, output = failure.partition("\n")
    assert says in output
    assert int(first.split(":")[1]) >= line
    assert first.startswith("page.md:")


def test_a_stand_in_server_has_all_settings_but_the_engines() -> None:
    server = load_script("docs_stand_ins/server")
    team = (SCRIPTS.parent / "docs/start/team.md").read_text("utf-8")
    (text,) = [each.text for each in pages.blocks_of(team) if each.language == "toml"]
    before, after = tomllib.loads(text), tomllib.loads(server.scripted(text))
    assert {each["kind"] for each in after["engines"]} == {"scripted"}
    for name in ("name", "model"):
        assert [e[name] for e in after["engines"]] == [e[name] for e in before["engines"]]
    assert {**after, "engines": 0} == {**before, "engines": 0}


# -- the pages themselves -------------------------------------------------------------------------


def test_no_link_of_ours_is_broken() -> None:
    found = docs.pages()
    reference = "docs/reference/"  # written from the code, and checked with it
    assert [each for each in pages.broken_links(docs.ROOT, found) if reference not in each] == []


def test_few_blocks_are_not_run() -> None:
    tried = [text for name, text in docs.pages().items() if name.startswith(docs._TRIED)]
    assert blocks.marked_share([each for text in tried for each in pages.blocks_of(text)]) <= 0.2


def test_the_page_for_a_laptop_is_walked_command_by_command() -> None:
    commands = list(walk._commands())
    assert commands[0] == "python3 -m venv .venv"
    [file] = [each for each in commands if each.startswith("cat >")]
    assert file.splitlines()[-1] == "END"
    assert all("\n" not in each for each in commands if each != file)
    assert any(each.startswith("vivace edit") for each in commands)
