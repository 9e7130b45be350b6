"""A page of Markdown: its links, its anchors, and its blocks of code.

What is read here is plain Markdown as GitHub shows it. Two comments, on the line before a block,
say what becomes of it when the pages are tried (``scripts/docs_blocks.py``)::

    <!-- not run: needs a GPU -->
    <!-- ends with: 1 -->
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = [
    "Block",
    "Link",
    "anchors_of",
    "blocks_of",
    "broken_links",
    "for_the_site",
    "links_of",
    "named_pages",
]

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*)[^`]*$")
_COMMENT = re.compile(r"^\s*<!-- (?P<kind>not run|ends with): (?P<said>.+?) -->\s*$")
_LINK = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\((?P<target>[^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md\b")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    """Of the page, on which its first line of code stands."""
    not_run: str = ""
    """The reason, if it is not to be run."""
    ends_with: int = 0


@dataclass(frozen=True)
class Link:
    target: str
    line: int


def blocks_of(text: str) -> Iterator[Block]:
    lines = text.split("\n")
    said: dict[str, str] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if opened := _FENCE.match(line):
            begin = number
            while number < len(lines) and lines[number].strip() != opened["fence"]:
                number += 1
            code = textwrap.dedent("\n".join(lines[begin:number]) + "\n")
            status = int(said.get("ends with", "0"))
            reason = said.get("not run", "")
            yield Block(opened["language"], code, begin + 1, reason, status)
            number += 1
            said = {}
        elif comment := _COMMENT.match(line):
            said[comment["kind"]] = comment["said"]
        elif line.strip():
            said = {}


def links_of(text: str) -> Iterator[Link]:
    prose = _without_code(text)
    for found in _LINK.finditer(prose):
        yield Link(found["target"], prose.count("\n", 0, found.end("text")) + 1)


def anchors_of(text: str) -> set[str]:
    """Of its headings, as GitHub makes them."""
    found: dict[str, int] = {}
    anchors = set()
    for line in _without_blocks(text).splitlines():
        if heading := _HEADING.match(line):
            slug = _slug(heading[1])
            again = found.get(slug, 0)
            found[slug] = again + 1
            anchors.add(f"{slug}-{again}" if again else slug)
    return anchors


def _slug(heading: str) -> str:
    words = _LINK.sub(lambda link: link["text"].strip("![]"), heading)
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


def _without_blocks(text: str) -> str:
    """As long as it was, with spaces where blocks stood."""
    lines = text.split("\n")
    for block in blocks_of(text):
        for number in range(block.line - 1, block.line - 1 + block.text.count("\n")):
            lines[number] = " " * len(lines[number])
    return "\n".join(lines)


def _without_code(text: str) -> str:
    """As long as it was, with spaces for all that is code."""
    return _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), _without_blocks(text))


# -- links ----------------------------------------------------------------------------------------


def broken_links(root: Path, pages: Mapping[str, str]) -> Iterator[str]:
    """Of pages (by their path from the root, as text) those links that lead nowhere, told in words.
    What is on the web is not asked."""
    for name, text in pages.items():
        for link in links_of(text):
            if why := _why_broken(root, pages, name, link.target):
                yield f"{name}:{link.line}: {link.target} {why}"


def _why_broken(root: Path, pages: Mapping[str, str], name: str, target: str) -> str:
    if re.match(r"[a-z]+:", target):
        return ""
    path, _, anchor = target.partition("#")
    meant = _resolve(name, path) if path else name
    if not (root / meant).exists():
        return f"leads to {meant}, which is not there"
    if not anchor:
        return ""
    text = pages.get(meant)
    if text is None:
        return "leads to a place in a file that is no page"
    if anchor not in anchors_of(text):
        return f"leads to a heading that {meant} does not have"
    return ""


def _resolve(page: str, path: str) -> str:
    return os.path.normpath(PurePosixPath(page).parent / path)


def named_pages(text: str) -> Iterator[tuple[int, str]]:
    """Pages that code names in messages and comments, each with its line."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in _PAGE.findall(line):
            yield number, found


def for_the_site(name: str, text: str, kept: Iterable[str], repository: str = "") -> str:
    """A page as the site has it: links out of the documentation lead into the repository, or, where
    it has no address, stay words."""
    inside = tuple(kept)
    told, end = [], 0
    for link in _LINK.finditer(_without_code(text)):
        shown, target = text[link.start("text") : link.end("text")], link["target"]
        path, _, anchor = target.partition("#")
        meant = _resolve(name, path)
        if re.match(r"[a-z]+:|#", target) or meant.startswith(inside):
            continue
        led = f"{shown}({repository}/{meant}{anchor and '#' + anchor})"
        told += [text[end : link.start()], led if repository else shown.strip("![]")]
        end = link.end()
    return "".join([*told, text[end:]])
