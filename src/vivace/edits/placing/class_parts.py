"""What a class has beside its members, and what became of it in an answer that leaves some out: its
head, and the statements of its body."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from tree_sitter import Node

from vivace.edits.placing.region import Region
from vivace.errors import EditError
from vivace.syntax.languages import Language, row_after
from vivace.syntax.lines import dedented, margin_of
from vivace.syntax.source import Source

__all__ = ["ClassParts", "is_another_head", "parts_of_class", "statements_became"]

_WORD = re.compile(r"[^\W\d]\w*")
_BEHIND_NAME = re.compile(r"[=:;({\[]")
_SECTIONS = frozenset({"public", "protected", "private"})
"""What follows them in a class of C++ belongs to them."""
_STAND_FOR_NOTHING = frozenset({"string", "ellipsis"})


class ClassParts(Struct, frozen=True):
    """Each with its code as its name, without regard to space."""

    head: Region
    statements: tuple[Region, ...]


def parts_of_class(
    lines: Sequence[str], each: Region, members: Sequence[Region], language: Language
) -> ClassParts:
    """The parts of a class in these lines."""
    own = lines[each.start : each.end]
    margin = margin_of(own)
    source = Source("".join(dedented(line, margin) for line in own), language)
    node = next(iter(source.nodes(language.definitions)), None)
    body = node.child_by_field_name("body") if node is not None else None
    if node is None or body is None or source.errors:
        raise EditError("The class that was answered cannot be told from what is in it.")
    whole = node
    while whole.parent is not None and whole.parent.type in language.wrappers:
        whole = whole.parent
    head = _region(whole.start_point.row, _head_end(body), _head(source, whole, body), each.start)
    statements: list[Region] = []
    for child in body.named_children:
        text = (child.text or b"").decode("utf-8", "surrogatepass")
        one = _region(child.start_point.row, row_after(child), text, each.start)
        if _is_remark(child) or any(_touch(one, member) for member in members):
            continue
        if statements and _touch(last := statements[-1], one):  # two in a line are one
            end = max(last.end, one.end)
            statements[-1] = Region(last.start, end, "selection", f"{last.name} {one.name}")
        else:
            statements.append(one)
    if any(_touch(head, one) for one in (*statements, *members)):
        raise EditError("A class whose first line has more than its head is not taken apart.")
    return ClassParts(head, tuple(statements))


def is_another_head(old: Region, new: Region, said: Collection[str]) -> bool:
    """Whether a class gets another head. Words that an answer leaves out stay, unless they were
    said."""
    was, comes = set(_WORD.findall(old.name)), set(_WORD.findall(new.name))
    left_out = (was - comes).difference(said)
    if left_out and comes - was:
        raise EditError(f"What becomes of `{old.name}` is not certain.")
    return was != comes and not left_out


def statements_became(
    old: Sequence[Region], new: Sequence[Region], said: Collection[str]
) -> dict[Region, Region]:
    """The statements of an answer with what they were: those that are the same, and those that say
    something else of the same name."""
    comes = {each.name for each in new}
    left_out = [each for each in old if each.name not in comes]
    became: dict[Region, Region] = {}
    for each in new:
        was = [other for other in old if other.name == each.name] or [
            other for other in left_out if _named(other) == _named(each)
        ]
        free = [other for other in was if other not in became.values()]
        unclear = each.name in _SECTIONS or any(_named(other) in said for other in left_out)
        if not free and (was or unclear):
            raise EditError(f"What `{each.name[:60]}` takes the place of is not certain.")
        if free:
            became[each] = free[0]
    return became


def _named(statement: Region) -> str:
    """What a statement is about: the last word before what it says."""
    words = _WORD.findall(_BEHIND_NAME.split(statement.name, maxsplit=1)[0])
    return words[-1] if words else ""


def _region(start: int, end: int, text: str, above: int) -> Region:
    return Region(start + above, end + above, "selection", " ".join(text.split()))


def _head(source: Source, whole: Node, body: Node) -> str:
    raw = source.text.encode("utf-8", "surrogatepass")[whole.start_byte : body.start_byte]
    return raw.decode("utf-8", "surrogatepass")


def _head_end(body: Node) -> int:
    """The line after the one that opens the body."""
    if body.children and body.children[0].type == "{":
        return body.start_point.row + 1
    return max((row_after(each) for each in _before(body)), default=body.start_point.row)


def _before(node: Node) -> Iterator[Node]:
    while (before := node.prev_sibling) is not None:
        node = before
        if node.type != "comment":
            yield node


def _is_remark(node: Node) -> bool:
    """Comments, texts that stand for themselves, and what stands for nothing."""
    inside = [child.type for child in node.named_children]
    alone = node.type == "expression_statement" and len(inside) == 1
    return (
        node.type.endswith("comment")
        or node.type == "pass_statement"
        or (alone and inside[0] in _STAND_FOR_NOTHING)
    )


def _touch(one: Region, other: Region) -> bool:
    return one.start < other.end and other.start < one.end
