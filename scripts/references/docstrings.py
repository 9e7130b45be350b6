"""The words that stand below an attribute in its class, which Python itself does not keep."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap

from msgspec import Struct

__all__ = ["attributes", "markdown"]


def attributes(kind: type) -> dict[str, str]:
    """What is said of each attribute that has a word, in Markdown; a base's counts where its heir
    says nothing."""
    words: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, Struct) and each is not Struct:
            words |= _own(each)
    return words


@functools.cache
def _own(kind: type) -> dict[str, str]:
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(found, ast.ClassDef)
    words = {}
    for statement, following in zip(found.body, found.body[1:], strict=False):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                words[name] = markdown(text)
    return words


def markdown(words: str) -> str:
    """A docstring as one paragraph."""
    return " ".join(words.split()).replace("``", "`")
