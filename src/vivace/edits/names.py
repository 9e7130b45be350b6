"""Python names that stand for nothing, and the imports that would make them stand for something.

A small model adds ``-> Optional[int]`` and forgets where ``Optional`` comes from. Only names that
nothing in the file could bind are counted, in whatever scope: a check that cries wolf is no use.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import warnings
from collections.abc import Iterable

__all__ = ["bound_by", "imports_for", "unbound", "used_imports"]

_IMPLICIT = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__path__", "__spec__"}
_HOMES = {
    "abc": "ABC abstractmethod",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "collections.abc": "AsyncIterator Awaitable Callable Generator Hashable Iterable Iterator "
    "Mapping MutableMapping Sequence",
    "contextlib": "closing contextmanager suppress",
    "dataclasses": "dataclass",
    "decimal": "Decimal",
    "enum": "Enum",
    "functools": "cached_property lru_cache partial total_ordering wraps",
    "pathlib": "Path",
    "typing": "Any ClassVar Dict Final List Literal NamedTuple NoReturn Optional Protocol Self Set "
    "Tuple Type TypeVar TypedDict Union cast overload",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def unbound(text: str) -> set[str]:
    """Names that are read and bound nowhere; none where the text cannot be judged."""
    bound = bound_by(text)
    read = {
        node.id
        for node in _nodes(text)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    return set() if "*" in bound else read - bound - _IMPLICIT


def bound_by(text: str) -> set[str]:
    """Names that are bound somewhere; ``*`` if one cannot know which."""
    return {name for node in _nodes(text) for name in _bound_by(node)}


def _nodes(text: str) -> list[ast.AST]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []


def _bound_by(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return (name,)
        case ast.Name() | ast.alias():
            return ()
        case ast.ClassDef(name=name):
            return (name, "__class__", "__qualname__", "__module__")
        case ast.Import(names=names):
            return [alias.asname or alias.name.partition(".")[0] for alias in names]
        case ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return names
        case ast.MatchMapping(rest=str(name)):
            return (name,)
        case _:
            # Handlers, patterns; and type parameters, whose nodes Python 3.11 does not have.
            other = getattr(node, "name", None)
            return (other,) if isinstance(other, str) else ()


def used_imports(imports: str, text: str) -> list[str]:
    """Those of the import statements that this text has a use for."""
    words = set(re.findall(r"\w+", text))
    kept: list[str] = []
    for node in _nodes(imports):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        names = set(_bound_by(node))
        if future or "*" in names or names & words:
            kept.append(ast.unparse(node) + "\n")
    return kept


def imports_for(names: Iterable[str]) -> list[str]:
    """Import statements for those names whose home is beyond doubt."""
    lines: list[str] = []
    for name in sorted(names):
        if name in _HOME:
            lines.append(f"from {_HOME[name]} import {name}\n")
        elif name in sys.stdlib_module_names and name not in ("datetime", "time", "copy", "array"):
            lines.append(f"import {name}\n")
    return lines
